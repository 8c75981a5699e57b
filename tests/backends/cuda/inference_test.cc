// SPDX-License-Identifier: Apache-2.0
// The small models saved by Hugging Face transformers on a GPU: in fp32 the same logits and
// continuations as theirs, in bf16 close to them, captured and not. Results must not depend on the
// cache, the chunk size, the batch or the level, and sampled tokens must match the CPU's.
#include <gtest/gtest.h>

#include "backends/cuda/gpu_session.h"
#include "serve/text_score.h"

namespace ridge::serve {
namespace {

constexpr double kLogits = 2e-3;
constexpr double kSame = 1e-4;
// Weights, activations and cached keys have 8 significant bits: a random error of 2^-9 each,
// through the sums of a few layers. The models' logits have a standard deviation of about 1.
constexpr double kNarrowLogits = 0.06;

class GpuInference : public testing::TestWithParam<const char*> {
 protected:
  GpuInference()
      : file_(models::ModelFile::open(data_folder() + GetParam())),
        expected_(files::read_json(data_folder() + GetParam() + "/expected.json")),
        ids_(ids_of(expected_["ids"][0])),
        other_(ids_of(expected_["ids"][1])) {}

  static SessionOptions options(const std::string& switches,
                                const std::string& level = "compiled") {
    SessionOptions made;
    made.capacity = 192;
    made.selection = passes::Selection(level, switches);
    return made;
  }

  models::ModelFile file_;
  nlohmann::json expected_;
  std::vector<int32_t> ids_, other_;
};

TEST_P(GpuInference, GivesTheSameLogits) {
  for (const char* switches : {kExact, kNarrow}) {
    SCOPED_TRACE(switches);
    double tolerance = switches == kExact ? kLogits : kNarrowLogits;
    GpuSession gpu(file_, options(switches));
    for (size_t row : {size_t{0}, size_t{1}}) {
      std::vector<float> logits = last_logits(gpu.session, row == 0 ? ids_ : other_);
      EXPECT_NEAR(log_sum_exp(logits), expected_["logsumexp_last"][row].get<double>(), tolerance);
      for (size_t v = 0; v < 8; ++v)
        EXPECT_NEAR(logits[v], expected_["logits_last8"][row][v].get<double>(), tolerance);
    }
    if (switches != kExact) continue;
    std::vector<int32_t> want = ids_of(expected_["greedy_from_first_row"]);
    EXPECT_EQ(greedy(gpu.session, ids_, want.size()), want);
  }
}

constexpr size_t kTokens = 80;  // far longer than the window, so that rings wrap around

TEST_P(GpuInference, IsTheSameEachWay) {
  GpuSession usual(file_, options(kExact));
  std::vector<int32_t> want = greedy(usual.session, ids_, kTokens);
  std::vector<float> logits = usual.session.logits(0);
  auto expect_same = [&](const std::string& way, const SessionOptions& changed) {
    GpuSession made(file_, changed);
    EXPECT_EQ(greedy(made.session, ids_, kTokens), want) << way;
    EXPECT_LE(largest_difference(made.session.logits(0), logits), kSame) << way;
  };
  for (const char* level : {"baseline", "fused", "kernels"})
    expect_same(level, options(kExact, level));
  expect_same("not captured", options(std::string(kExact) + ",-capture"));
  SessionOptions changed = options(kExact);
  changed.chunk = 7;
  expect_same("in chunks of 7", changed);
  changed = options(kExact);
  changed.cached = false;
  expect_same("without a cache", changed);
}

TEST_P(GpuInference, IsTheSameInABatch) {
  SessionOptions three = options(kExact);
  three.slots = 3;
  three.chunk = 16;  // prompts share chunks
  GpuSession batch(file_, three);
  std::vector<int32_t> shorter(ids_.begin(), ids_.begin() + 5);
  std::vector<Prompt> prompts{{2, ids_, {}}, {0, other_, {}}, {1, shorter, {}}};
  std::vector<int32_t> tokens = batch.session.start(prompts);
  std::vector<int64_t> slots{2, 0, 1};
  for (int i = 0; i < 12; ++i) batch.session.step(slots, tokens);
  for (size_t s = 0; s < 3; ++s) {
    GpuSession alone(file_, options(kExact));
    EXPECT_EQ(greedy(alone.session, prompts[s].ids, 13).back(), tokens[s]);
    EXPECT_LE(largest_difference(alone.session.logits(0), batch.session.logits(slots[s])), kSame);
  }
}

TEST_P(GpuInference, DrawsAsTheCpuDoes) {
  auto drawn = [&](Session& session, const SamplingOptions& sampling) {
    Prompt prompt{0, ids_, sampling};
    std::vector<int32_t> tokens = session.start({&prompt, 1});
    int64_t slot = 0;
    for (int i = 0; i < 20; ++i) {
      tokens.push_back(0);
      session.step({&slot, 1}, {&tokens.back(), 1});
    }
    return tokens;
  };
  GpuSession gpu(file_, options(kExact));
  Session cpu(file_, at_level("compiled", 192), cpu_backend());
  for (const SamplingOptions& sampling :
       {SamplingOptions{1.0, 0, 0.95, 0, 1.1, 1}, SamplingOptions{0.7, 40, 0, 0, 1, 2},
        SamplingOptions{1.3, 0, 0, 0.02, 1, 3}, SamplingOptions{1.0, 0, 0, 0, 1, 4},
        SamplingOptions{0.8, 50, 0.9, 0.01, 1.2, 5}, SamplingOptions{0, 0, 0, 0, 1.3, 6}})
    EXPECT_EQ(drawn(gpu.session, sampling), drawn(cpu, sampling)) << "seed " << sampling.seed;
}

TEST_P(GpuInference, FindsTextsAsLikely) {
  std::vector<int32_t> text = ids_;
  text.insert(text.end(), other_.begin(), other_.end());
  text.resize(std::min<size_t>(text.size(), 192));
  Session cpu(file_, at_level("compiled", 192), cpu_backend());
  double want = score(cpu, text).nll / static_cast<double>(text.size());
  GpuSession exact(file_, options(kExact)), narrow(file_, options(kNarrow));
  EXPECT_NEAR(score(exact.session, text).nll / static_cast<double>(text.size()), want, 1e-3);
  EXPECT_NEAR(score(narrow.session, text).nll / static_cast<double>(text.size()), want, 0.02);
}

INSTANTIATE_TEST_SUITE_P(All,
                         GpuInference,
                         testing::Values("llama_fp32",
                                         "llama3_bf16_sharded",
                                         "gemma3_bf16",
                                         "qwen2_fp32",
                                         "qwen3_bf16"));

}  // namespace
}  // namespace ridge::serve
