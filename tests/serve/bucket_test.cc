// SPDX-License-Identifier: Apache-2.0
// The shapes that steps are padded to.
#include "serve/bucket.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

namespace ridge::serve {
namespace {

int64_t padded(int64_t tokens) {
  return bucket_shape(models::InferenceTask::kPrefill, tokens, tokens, 1, false, {}).tokens;
}

TEST(BucketTest, PaddingIsLessThanAnEighthFrom128TokensOn) {
  for (int64_t tokens = 1; tokens <= 4096; ++tokens) {
    const int64_t padding = padded(tokens) - tokens;
    EXPECT_GE(padding, 0) << tokens;
    EXPECT_LT(padding, tokens < 128 ? 16 : tokens / 8.0) << tokens;
    EXPECT_EQ(padded(padded(tokens)), padded(tokens)) << tokens;
  }
}

TEST(BucketTest, EachDoublingTakesEightGraphs) {
  for (int64_t tokens : {128, 256, 512, 1024}) {
    std::set<int64_t> shapes;
    for (int64_t n = tokens + 1; n <= 2 * tokens; ++n) shapes.insert(padded(n));
    EXPECT_EQ(shapes.size(), 8u) << tokens;
  }
}

// A step of lone tokens has a row for each; others few numbers of them.
TEST(BucketTest, RowsAreAllOrAPowerOfFour) {
  constexpr int64_t kSlots = 96, kContext = 2048;
  const models::CacheShape cache =
      models::cache_shape({.slots = kSlots, .capacity = kContext, .chunk = 1000, .shares = true});
  const auto rows = [&](int64_t tokens, int64_t of) {
    return bucket_shape(models::InferenceTask::kPrefill, tokens, kContext, of, true, cache)
        .row_count();
  };
  EXPECT_EQ(rows(512, 1), 1);
  EXPECT_EQ(rows(512, 3), 4);
  EXPECT_EQ(rows(512, 17), 64);
  EXPECT_EQ(rows(512, 65), kSlots);
  EXPECT_EQ(rows(64, 64), 64);
  EXPECT_EQ(rows(33, 33), padded(33));
}

TEST(PreparedShapes, CoverEveryStepWithAQuarterOfPadding) {
  constexpr int64_t kMost = 1000, kSlots = 96, kContext = 2048;
  const models::CacheShape cache =
      models::cache_shape({.slots = kSlots, .capacity = kContext, .chunk = kMost, .shares = true});
  const std::vector<models::InferenceShape> shapes = prepared_shapes(cache, kMost);
  EXPECT_LE(shapes.size(), 60u);
  EXPECT_EQ(shapes.front().tokens, kMost);  // the arena that all share
  for (int64_t tokens = 1; tokens <= kMost; ++tokens)
    for (const int64_t rows : {int64_t{0}, int64_t{1}, std::min(tokens, kSlots)}) {
      int64_t least = INT64_MAX;
      for (const models::InferenceShape& shape : shapes)
        if (shape.tokens >= tokens && shape.row_count() >= rows && shape.context == kContext)
          least = std::min(least, shape.tokens);
      EXPECT_LE(least, tokens < 4 ? tokens : tokens * 5 / 4) << tokens << " tokens, " << rows;
    }
}

// Most long steps are prompts beside a few sequences that decode, and the head's rows cost as much
// as a layer.
TEST(PreparedShapes, OfLongStepsComputeFewRowsOrAll) {
  constexpr int64_t kSlots = 96;
  const models::CacheShape cache =
      models::cache_shape({.slots = kSlots, .capacity = 2048, .chunk = 1000, .shares = true});
  std::map<int64_t, std::set<int64_t>> rows;
  for (const models::InferenceShape& shape : prepared_shapes(cache, 1000))
    rows[shape.tokens].insert(shape.row_count());
  for (const auto& [tokens, counts] : rows) {
    std::set<int64_t> want = {std::min(tokens, kSlots)};
    if (tokens > 64) want.insert(8);
    EXPECT_EQ(counts, want) << tokens;
  }
}

TEST(BucketTitle, SaysTheTokensThenTheContext) {
  const models::CacheShape cache =
      models::cache_shape({.slots = 4, .capacity = 1500, .chunk = 16, .shares = true});
  EXPECT_EQ(bucket_title({models::InferenceTask::kPrefill, 16, 512, true, cache, 1}),
            "inference of 16, context 512");
}

TEST(PreparedShapes, HaveSeveralContextsForALoneTokenOnly) {
  const models::CacheShape cache =
      models::cache_shape({.slots = 4, .capacity = 1500, .chunk = 16, .shares = true});
  std::multiset<int64_t> lone, others;
  for (const models::InferenceShape& shape : prepared_shapes(cache, 16))
    (shape.tokens == 1 ? lone : others).insert(shape.context);
  const int64_t ring = cache.full.ring();
  EXPECT_EQ(lone, (std::multiset<int64_t>{256, 512, 1024, ring}));
  EXPECT_EQ(others.count(ring), others.size());
}

}  // namespace
}  // namespace ridge::serve
