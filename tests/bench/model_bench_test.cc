// SPDX-License-Identifier: Apache-2.0
// The counts of a model's timed decode steps, whatever their times.
#include "bench/model_bench.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "cost/made_up_ceilings.h"
#include "files/own_cache.h"
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

// Whole benches of the same file, on ceilings that nothing beats.
class WholeModelBench : public testing::Test {
 protected:
  WholeModelBench() {
    setup_.inference.model = serve::data_folder() + "llama_fp32";
    setup_.inference.machine.device = "cpu";
    setup_.inference.machine.threads = 1;
    setup_.inference.level.level = "compiled";
    setup_.inference.level.switches = "-tune_gemm";
    setup_.inference.chunk = 16;
    setup_.prompts = "8,24";
    setup_.generated = "3";
    setup_.trials.batch = 2;
    setup_.trials.repeats = 3;
  }
  record::ModelBenchRecord run() {
    return bench_model(
        setup_, [this] { return ceilings_; },
        [this](const std::string& note) { notes_.push_back(note); });
  }
  void expect_error(const std::string& reason) {
    files::expect_error([&] { run(); }, ExitCode::kUsage, reason);
  }

  ModelBenchSetup setup_;
  cost::Ceilings ceilings_ = [] {
    cost::Ceilings c = cost::made_up_ceilings({{1, 1e6, 1e6}, {1 << 30, 1e6, 1e6}}, 1e6);
    c.arithmetic_flops_per_ns = c.fused_flops_per_ns = c.transcendentals_per_ns = 1e6;
    return c;
  }();
  std::vector<std::string> notes_;

 private:
  files::OwnCache cache_;
};

TEST_F(WholeModelBench, DescribesTheModelAndEachTrial) {
  const record::ModelBenchRecord made = run();
  const models::ModelFile file = models::ModelFile::open(setup_.inference.model);
  EXPECT_EQ(made.setting.model, "llama_fp32");
  EXPECT_EQ(made.setting.batch_size, 2);
  EXPECT_EQ(made.setting.cache_dtype, "fp32");
  EXPECT_EQ(made.setting.level, "compiled");
  EXPECT_EQ(made.format, "safetensors");
  EXPECT_EQ(made.size_bytes, file.weight_bytes());
  EXPECT_EQ(made.parameters, file.config().parameters());
  EXPECT_EQ(made.activations, "fast");
  EXPECT_GT(made.owned_bytes, file.weight_bytes() / 2);
  for (const double ns : {made.read_ns, made.open_ns, made.first_token_ns}) EXPECT_GT(ns, 0);
  ASSERT_EQ(made.trials.size(), 3u);
  const char* names[] = {"pp8", "pp24", "tg3"};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(made.trials[i].name, names[i]);
    EXPECT_EQ(made.trials[i].tokens, i == 0 ? 8 : i == 1 ? 24 : 3);
    EXPECT_EQ(made.trials[i].is_decode, i == 2);
    EXPECT_EQ(made.trials[i].rates.size(), 3u);
  }
  EXPECT_TRUE(made.kernels.empty());
  EXPECT_TRUE(notes_.empty()) << notes_[0];
  setup_.inference.exact = true;
  setup_.generated = "0";
  setup_.prompts = "4";
  const record::ModelBenchRecord exact = run();
  EXPECT_EQ(exact.activations, "exact");
  EXPECT_EQ(exact.trials.size(), 1u);
}

// Kernels of a run of each prompt, of the last chunk if there are several, and of a decode step.
TEST_F(WholeModelBench, SumsKernelTimesByOpAndWeight) {
  setup_.operations = true;
  const record::ModelBenchRecord made = run();
  ASSERT_EQ(made.kernels.size(), 3u);
  EXPECT_EQ(made.kernels[0].run, "the last run of a 8-token prompt");
  EXPECT_EQ(made.kernels[1].run, "the last 8 of 24 prompt tokens");
  EXPECT_EQ(made.kernels[2].run, "a decode step");
  for (const record::KernelTimes& each : made.kernels) {
    double sum = 0, last = HUGE_VAL;
    int64_t down = 0;
    std::set<std::string> names;
    for (const record::KernelTimes::Operation& op : each.operations) {
      EXPECT_TRUE(names.insert(op.name).second) << op.name;
      EXPECT_GT(op.kernels, 0);
      EXPECT_LE(op.ns, last) << "the longest first";
      last = op.ns;
      sum += op.ns;
      if (op.name.ends_with(" by [64,172]")) down += op.kernels;
    }
    EXPECT_EQ(down, 3) << "the products of three layers by one shape of weight";
    EXPECT_NEAR(each.kernel_ns, sum, 1e-6 * sum);
    EXPECT_GT(each.kernel_ns, 0);
    EXPECT_LE(each.kernel_ns, each.wall_ns);
  }
}

TEST_F(WholeModelBench, KeepsTheCeilingsThatATrialBeats) {
  ceilings_.products[0].peak_flops_per_ns = 1e-6;
  ceilings_.measured_at = "2026-01-02T03:04:05Z";
  setup_.prompts = "8";
  run();
  ASSERT_FALSE(notes_.empty());
  EXPECT_TRUE(notes_[0].starts_with("warning: pp8 ")) << notes_[0];
  EXPECT_TRUE(notes_[0].ends_with(", so that is raised for the next run")) << notes_[0];
  const std::filesystem::path kept = measure::ceilings_path(ceilings_.machine);
  ASSERT_TRUE(std::filesystem::exists(kept));
  EXPECT_GT(cost::ceilings_from_json(files::contents(kept), "kept").peak_flops_per_ns(DType::kF32),
            1e-6);
}

TEST_F(WholeModelBench, RefusesOptionsByTheirNames) {
  const ModelBenchSetup good = setup_;
  const auto expect = [&](auto change, const std::string& reason) {
    setup_ = good;
    change(setup_);
    expect_error(reason);
  };
  expect([](auto& o) { o.prompts = o.generated = "0"; },
         "[bench] expected -p or -n above 0, got 0 for both");
  expect([](auto& o) { o.trials.repeats = 0; }, "[repeats] expected 1 to 10000, got 0");
  expect([](auto& o) { o.trials.repeats = 10'001; }, "[repeats] expected 1 to 10000, got 10001");
  expect([](auto& o) { o.trials.batch = 0; }, "[batch-size] expected 1 to 4096, got 0");
  expect([](auto& o) { o.trials.batch = 4097; }, "[batch-size] expected 1 to 4096, got 4097");
  expect([](auto& o) { o.trials.depth = -1; }, "[depth] expected at least 0, got -1");
  expect([](auto& o) { o.prompts = "8,257"; },
         "[bench] expected at most 256 positions, the model's context, got 257");
  expect([](auto& o) { o.trials.depth = 254; },
         "[bench] expected at most 256 positions, the model's context, got 257");
  expect([](auto& o) { o.trials.depth = INT64_MAX; },
         "[bench] expected at most 256 positions, the model's context, got 9223372036854775807");
  setup_ = good;
  setup_.prompts = "0";
  setup_.trials.depth = 253;
  setup_.trials.repeats = 1;
  EXPECT_EQ(run().trials.at(0).name, "tg3 @ d253");
}

}  // namespace
}  // namespace ridge::bench
