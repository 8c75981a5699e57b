// SPDX-License-Identifier: Apache-2.0
// The counts of a model's timed decode steps, whatever their times.
#include "bench/model_bench.h"

#include <gtest/gtest.h>

#include "cost/made_up_ceilings.h"
#include "serve/real_model.h"

namespace ridge::bench {
namespace {

constexpr int64_t kBatch = 2;

class ModelBenchTest : public testing::Test {
 protected:
  ModelBenchTest() : file_(models::ModelFile::open(serve::data_folder() + "llama_fp32")) {
    serve::SessionOptions options = serve::at_level("compiled", 64);
    options.slots = kBatch;
    session_ = std::make_unique<serve::Session>(file_, options, serve::cpu_backend());
  }
  record::ModelTrial decoded(int64_t depth, int64_t tokens) {
    ModelBench bench(file_, *session_, ceilings_, {.depth = depth, .batch = kBatch, .repeats = 3});
    return bench.time_decode(tokens);
  }

  models::ModelFile file_;
  std::unique_ptr<serve::Session> session_;
  // Memory is so slow that any step is faster.
  cost::Ceilings ceilings_ = cost::made_up_ceilings({{1 << 30, 1e-9, 1e-9}}, 1);
};

TEST_F(ModelBenchTest, ADecodeStepReadsTheWeightsAndItsKeys) {
  constexpr int64_t kTokens = 4;
  double weights = 0;
  for (int64_t depth : {2, 5}) {
    const record::ModelTrial trial = decoded(depth, kTokens);
    EXPECT_EQ(trial.name, fmt::format("tg4 @ d{}", depth));
    EXPECT_EQ(trial.rates.size(), 3u);
    const double ns = kTokens * kBatch * 1e9 / trial.summary().median;
    int64_t keys = 0;
    for (int64_t i = 1; i <= kTokens; ++i)
      keys += kBatch * models::seen_bytes(file_.config(), depth + i, DType::kF32);
    const double of_step = (trial.shares.bytes_per_ns * ns - static_cast<double>(keys)) / kTokens;
    EXPECT_GT(of_step, 0.5 * static_cast<double>(file_.weight_bytes()));
    EXPECT_LE(of_step, 1.01 * static_cast<double>(file_.weight_bytes()));
    if (weights > 0) {
      EXPECT_NEAR(of_step, weights, 1e-6 * weights);
    }
    weights = of_step;
  }
  EXPECT_EQ(decoded(0, 3).name, "tg3");
}

// A single repeat has a read before it and one after it.
TEST_F(ModelBenchTest, ARepeatIsComparedWithTheReadsAroundIt) {
  ModelBench bench(file_, *session_, ceilings_,
                   {.depth = 2, .batch = kBatch, .repeats = 1, .reads_memory = true});
  const record::ModelTrial trial = bench.time_decode(2);
  EXPECT_EQ(trial.beside_bytes, file_.weight_bytes());
  EXPECT_GT(trial.beside_bytes_per_ns, 0);
  EXPECT_DOUBLE_EQ(trial.of_beside, trial.shares.bytes_per_ns / trial.beside_bytes_per_ns);
}

// Weights that are larger than the last-level cache do not lie in it.
TEST_F(ModelBenchTest, ALargeShareOfMemoryNamesTheCacheThatHoldsTheWeights) {
  for (int64_t capacity : {int64_t{1} << 30, file_.weight_bytes() / 100}) {
    ceilings_.levels.erase(ceilings_.levels.begin(), ceilings_.levels.end() - 1);
    ceilings_.levels.insert(ceilings_.levels.begin(), {"L3", capacity, 1, 1, 0});
    const record::ModelTrial trial = decoded(2, 2);
    EXPECT_GT(trial.shares.of_reads, 1);
    EXPECT_EQ(trial.shares.read_reason.starts_with("the weights lie in"),
              capacity > file_.weight_bytes())
        << trial.shares.read_reason;
  }
}

}  // namespace
}  // namespace ridge::bench
