// SPDX-License-Identifier: Apache-2.0
// Tests of what the engine counts, and of answers that wait for their reader.
#include "serve/engine_counts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "serve/request.h"

namespace ridge::serve {
namespace {

TEST(EngineCounts, BoundsOfHistogramsRise) {
  const EngineCounts counts;
  for (const Histogram* each :
       {&counts.queue, &counts.ttft, &counts.tpot, &counts.inter_token, &counts.end_to_end}) {
    EXPECT_GT(each->bounds.size(), 10u);
    EXPECT_EQ(std::ranges::adjacent_find(each->bounds, std::greater_equal()), each->bounds.end());
  }
}

TEST(Histogram, CountsAValueUpToItsBound) {
  Histogram seconds({1, 2});
  for (double value : {0.5, 1.0, 1.5, 2.5}) seconds.observe(value);
  EXPECT_EQ(seconds.counts, (std::vector<int64_t>{2, 1, 1}));
  EXPECT_EQ(seconds.sum, 5.5);
  EXPECT_EQ(seconds.count, 4);
}

TEST(Delta, HasThePartsThatWereAppended) {
  Delta all{.text = "a", .tokens = 1, .ids = {5}, .cached_tokens = 2};
  all.append(
      {.text = "bc", .tokens = 2, .ids = {6, 7}, .cached_tokens = 1, .finish = Finish::kLength});
  EXPECT_EQ(all.text, "abc");
  EXPECT_EQ(all.tokens, 3);
  EXPECT_EQ(all.ids, (std::vector<int32_t>{5, 6, 7}));
  EXPECT_EQ(all.cached_tokens, 3);
  EXPECT_EQ(all.finish, Finish::kLength);
}

}  // namespace
}  // namespace ridge::serve
