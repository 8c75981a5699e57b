// SPDX-License-Identifier: Apache-2.0
// The scores of flash attention that a plan counts on a device with given tiles.
#include "backends/null/null_backend.h"

#include <gtest/gtest.h>

#include "ops/infer.h"
#include "ops/plain_attention.h"

namespace ridge::backends::null {
namespace {

TEST(NullTarget, CountsTheScoresOfTilesThatHoldAVisiblePair) {
  const auto target = make_null_target({.query_tile = 16, .key_tile = 8});
  for (int64_t sequence : {1, 8, 15, 16, 17, 40, 65})
    for (int64_t window : {-1, 0, 1, 7, 8, 9, 16, 24, 100}) {  // -1: not causal
      const Attrs attrs{{"sequence", sequence},
                        {"causal", window >= 0},
                        {"window", std::max<int64_t>(window, 0)},
                        {"scale", 0.5}};
      const Type q = ops::f32({2 * sequence, 4, 8}), k = ops::f32({2 * sequence, 2, 8});
      const std::vector<Type> inputs{q, k, k};
      const Call call{inputs, {}, attrs};
      const plan::FlashScores scores = target->flash_scores(call);
      const int64_t want = ops::Heads(call, q.shape, k.shape).scores({16, 8});
      EXPECT_EQ(scores.forward, want) << sequence << " in windows of " << window;
      EXPECT_EQ(scores.backward, want) << sequence << " in windows of " << window;
      EXPECT_EQ(scores.recomputed, 0);
    }
}

}  // namespace
}  // namespace ridge::backends::null
