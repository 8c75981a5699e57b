// SPDX-License-Identifier: Apache-2.0
// Published models from their quantized files on a GPU, where blocks are dequantized at load. In
// fp32: the logits, continuations and likelihoods of Hugging Face transformers on the same
// dequantized weights, at each level, with and without a cache. In bf16: close to them.
#include <gtest/gtest.h>

#include "backends/cuda/gpu_session.h"
#include "serve/text_score.h"

namespace ridge::serve {
namespace {

constexpr double kSame = 2e-4;
// bf16 has 8 significant bits for weights, activations and keys, through tens of layers. llama.cpp,
// which rounds too, differs from these logits by up to 0.54 (SmolLM2) and 1.01 (Gemma 3).
constexpr double kNarrowLogits = 0.7;
constexpr double kNarrowLikelihood = 0.05;

class GpuPublishedModel : public PublishedModelTest {
 protected:
  static SessionOptions options(const std::string& switches,
                                const std::string& level = "compiled") {
    SessionOptions made;
    made.capacity = 1024;
    made.selection = passes::Selection(level, switches);
    return made;
  }

  void expect_expectations(const char* switches, double logit_bound, double likelihood_bound) {
    GpuSession gpu(*file_, options(switches));
    double logit_distance = 0, likelihood_distance = 0;
    for (const auto& text : expected_) {
      std::vector<int32_t> ids = ids_of(text["ids"]);
      std::vector<float> logits = last_logits(gpu.session, ids);
      for (const auto& top : text["last_top"])
        logit_distance =
            std::max(logit_distance, std::abs(logits[top[0].get<size_t>()] - top[1].get<double>()));
      logit_distance = std::max(
          logit_distance, std::abs(log_sum_exp(logits) - text["last_logsumexp"].get<double>()));
      Likelihood got = score(gpu.session, ids);
      likelihood_distance = std::max(
          likelihood_distance,
          std::abs(got.nll / static_cast<double>(got.tokens) - text["nll_mean"].get<double>()));
    }
    RecordProperty("logit_distance", std::to_string(logit_distance));
    EXPECT_LE(logit_distance, logit_bound);
    EXPECT_LE(likelihood_distance, likelihood_bound);
  }
};

TEST_P(GpuPublishedModel, MeetsTheExpectations) {
  expect_expectations(kExact, kLogits, kLikelihood);
}

TEST_P(GpuPublishedModel, IsCloseInBf16) {
  expect_expectations(kNarrow, kNarrowLogits, kNarrowLikelihood);
}

TEST_P(GpuPublishedModel, ContinuesAlike) {
  GpuSession gpu(*file_, options(kExact));
  for (const auto& text : expected_) {
    if (!text.contains("greedy")) continue;
    std::vector<int32_t> want = ids_of(text["greedy"]);
    std::vector<int32_t> got = greedy(gpu.session, ids_of(text["ids"]), want.size());
    for (size_t i = 0; i < want.size() && text["margins"][i].get<double>() >= kTie; ++i)
      ASSERT_EQ(got[i], want[i]) << "token " << i << " after " << text["text"];
  }
}

TEST_P(GpuPublishedModel, IsTheSameEachWay) {
  constexpr size_t kTokens = 8;
  std::vector<int32_t> ids = ids_of(expected_[0]["ids"]);
  GpuSession usual(*file_, options(kExact));
  std::vector<int32_t> want = greedy(usual.session, ids, kTokens);
  std::vector<float> logits = usual.session.logits(0);
  auto expect_same = [&](const char* way, const SessionOptions& changed) {
    GpuSession made(*file_, changed);
    EXPECT_EQ(greedy(made.session, ids, kTokens), want) << way;
    EXPECT_LE(largest_difference(made.session.logits(0), logits), kSame) << way;
  };
  for (const char* level : {"baseline", "fused", "kernels"})
    expect_same(level, options(kExact, level));
  SessionOptions changed = options(kExact);
  changed.cached = false;
  expect_same("without a cache", changed);
  changed = options(kExact);
  changed.chunk = 3;
  expect_same("in chunks", changed);
}

// In bf16, a single token uses other kernels (append_attention, GEMMs in registers) than several
// tokens.
TEST_P(GpuPublishedModel, IsAloneAsInABatchInBf16) {
  constexpr size_t kTokens = 8;
  constexpr double kRoundings = kNarrowLogits;  // the same logits in another order differ by it
  std::vector<int32_t> ids = ids_of(expected_[0]["ids"]), other = ids_of(expected_[1]["ids"]);
  GpuSession alone(*file_, options(kNarrow));
  SessionOptions two = options(kNarrow);
  two.slots = 2;
  GpuSession batch(*file_, two);
  std::vector<Prompt> one{{0, ids, {}}}, both{{1, ids, {}}, {0, other, {}}};
  std::vector<int32_t> token = alone.session.start(one), tokens = batch.session.start(both);
  std::vector<int64_t> slot{0}, slots{1, 0};
  for (size_t i = 0; i < kTokens; ++i) {
    EXPECT_LE(largest_difference(alone.session.logits(0), batch.session.logits(1)), kRoundings)
        << "step " << i;
    token[0] = tokens[0];  // the same text, in case a tie was resolved differently
    alone.session.step(slot, token);
    batch.session.step(slots, tokens);
  }
}

INSTANTIATE_TEST_SUITE_P(All,
                         GpuPublishedModel,
                         testing::ValuesIn(kPublished),
                         GpuPublishedModel::name);

}  // namespace
}  // namespace ridge::serve
