// SPDX-License-Identifier: Apache-2.0
// Reuse distances against a list of pieces in the order of their last touch.
#include "cost/reuse.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

namespace ridge::cost {
namespace {

TEST(ReuseClock, CountsTheBytesTouchedSince) {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    std::mt19937 random(seed);
    const auto pieces = static_cast<int64_t>(1 + random() % 40);
    constexpr int64_t kTouches = 300;
    const auto warm_ups = static_cast<int64_t>(random() % 3) * kTouches / 4;
    ReuseClock clock(pieces, kTouches);
    std::vector<std::pair<int64_t, int64_t>> recent;  // piece and bytes, the last one in front
    for (int64_t i = 0; i < kTouches; ++i) {
      const auto piece = static_cast<int64_t>(random() % static_cast<uint64_t>(pieces)),
                 bytes = static_cast<int64_t>(random() % 5000);
      int64_t expected = 0;
      auto found = recent.begin();
      for (; found != recent.end() && found->first != piece; ++found) expected += found->second;
      if (found == recent.end())
        expected = -1;
      else
        recent.erase(found);
      recent.insert(recent.begin(), {piece, bytes});
      if (i < warm_ups)
        clock.warm_up(piece, bytes);
      else
        ASSERT_EQ(clock.touch(piece, bytes), expected) << "seed " << seed << ", touch " << i;
    }
  }
}

}  // namespace
}  // namespace ridge::cost
