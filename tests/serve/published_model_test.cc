// SPDX-License-Identifier: Apache-2.0
// Published models against Hugging Face transformers on the same dequantized weights: last logits,
// greedy continuations and likelihoods.
#include <gtest/gtest.h>

#include "serve/real_model.h"
#include "serve/text_score.h"

namespace ridge::serve {
namespace {

constexpr double kRoundedLikelihood = 0.01;
constexpr int64_t kLongText = 500;

using PublishedModel = PublishedModelTest;

TEST_P(PublishedModel, GivesTheSameLastLogits) {
  Session session(*file_, at_level("compiled", 1024), cpu_backend());
  for (const auto& text : expected_) {
    std::vector<float> logits = last_logits(session, ids_of(text["ids"]));
    for (const auto& top : text["last_top"])
      EXPECT_NEAR(logits[top[0].get<size_t>()], top[1].get<double>(), kLogits)
          << text["text"].get<std::string>().substr(0, 40);
    EXPECT_NEAR(log_sum_exp(logits), text["last_logsumexp"].get<double>(), kLogits);
  }
}

TEST_P(PublishedModel, ContinuesAlike) {
  Session session(*file_, at_level("compiled", 1024), cpu_backend());
  for (const auto& text : expected_) {
    if (!text.contains("greedy")) continue;
    std::vector<int32_t> want = ids_of(text["greedy"]);
    std::vector<int32_t> got = greedy(session, ids_of(text["ids"]), want.size());
    for (size_t i = 0; i < want.size() && text["margins"][i].get<double>() >= kTie; ++i)
      ASSERT_EQ(got[i], want[i]) << "token " << i << " after " << text["text"];
  }
}

TEST_P(PublishedModel, FindsTextsAsLikely) {
  Session session(*file_, at_level("compiled", 1024), cpu_backend());
  for (const auto& text : expected_) {
    Likelihood got = score(session, ids_of(text["ids"]));
    EXPECT_EQ(got.tokens + 1, text["tokens"].get<int64_t>());
    EXPECT_NEAR(got.nll / static_cast<double>(got.tokens), text["nll_mean"].get<double>(),
                kLikelihood);
  }
}

TEST_P(PublishedModel, LosesLittleByRoundingActivations) {
  SessionOptions options = at_level("compiled", 1024);
  options.selection = passes::Selection("compiled", "-tune_gemm,+quantize_activations");
  Session session(*file_, options, cpu_backend());
  for (const auto& text : expected_) {
    std::vector<int32_t> ids = ids_of(text["ids"]);
    std::vector<float> logits = last_logits(session, ids);
    for (const auto& top : text["last_top"])
      EXPECT_NEAR(logits[top[0].get<size_t>()], top[1].get<double>(), GetParam().rounded_logits)
          << text["text"].get<std::string>().substr(0, 40);
    if (text["tokens"].get<int64_t>() < kLongText) continue;
    Likelihood got = score(session, ids);
    EXPECT_NEAR(got.nll / static_cast<double>(got.tokens), text["nll_mean"].get<double>(),
                kRoundedLikelihood);
  }
}

// The cache, the chunk size, other sequences in the batch and the level change only the order of
// sums.
TEST_P(PublishedModel, IsTheSameEachWay) {
  constexpr double kSame = 1e-4;
  constexpr size_t kTokens = 4;
  std::vector<int32_t> ids = ids_of(expected_[0]["ids"]), other = ids_of(expected_[1]["ids"]);
  ids.resize(std::min<size_t>(ids.size(), 12));
  other.resize(std::min<size_t>(other.size(), 9));
  SessionOptions usual = at_level("compiled", 64);
  Session session(*file_, usual, cpu_backend());
  std::vector<int32_t> want = greedy(session, ids, kTokens);
  std::vector<float> logits = session.logits(0);
  auto expect_same = [&](const char* way, const SessionOptions& options) {
    Session made(*file_, options, cpu_backend());
    EXPECT_EQ(greedy(made, ids, kTokens), want) << way;
    EXPECT_LE(largest_difference(made.logits(0), logits), kSame) << way;
  };
  SessionOptions changed = usual;
  changed.cached = false;
  expect_same("without a cache", changed);
  changed = usual;
  changed.chunk = 5;
  expect_same("in chunks", changed);
  for (const char* level : {"baseline", "fused", "kernels"})
    expect_same(level, at_level(level, 64));
  changed = usual;
  changed.slots = 2;
  Session batch(*file_, changed, cpu_backend());
  std::vector<Prompt> prompts{{1, ids, {}}, {0, other, {}}};
  std::vector<int32_t> tokens = batch.start(prompts);
  std::vector<int64_t> slots{1, 0};
  for (size_t i = 0; i < kTokens; ++i) {
    EXPECT_EQ(tokens[0], want[i]) << "token " << i << " in a batch";
    if (i + 1 < kTokens) batch.step(slots, tokens);
  }
  EXPECT_LE(largest_difference(batch.logits(1), logits), kSame) << "in a batch";
}

INSTANTIATE_TEST_SUITE_P(All, PublishedModel, testing::ValuesIn(kPublished), PublishedModel::name);

}  // namespace
}  // namespace ridge::serve
