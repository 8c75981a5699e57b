// SPDX-License-Identifier: Apache-2.0
// Published models against Hugging Face transformers, on some texts; published_model_slow_test.cc
// has all of them. Also the same model in different ways.
#include "serve/published_model_case.h"

namespace ridge::serve {
namespace {

using PublishedModel = PublishedModelCase;

// One text is longer than a chunk of a prefill and a window of attention.
constexpr int64_t kMostTokens = 600;

TEST_P(PublishedModel, GivesTheSameLastLogits) { expect_last_logits(texts(3)); }
TEST_P(PublishedModel, ContinuesAlike) { expect_continuations(texts(2)); }
TEST_P(PublishedModel, FindsTextsAsLikely) { expect_likelihoods(texts(SIZE_MAX, kMostTokens)); }
TEST_P(PublishedModel, LosesLittleByRoundingActivations) {
  expect_close_when_rounded(texts(SIZE_MAX, kMostTokens));
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
