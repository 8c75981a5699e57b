// SPDX-License-Identifier: Apache-2.0
// Reuse distances against a list of pieces in the order of their last touch.
#include "cost/reuse.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace ridge::cost {
namespace {

TEST(ReuseDistances, CountTheBytesTouchedSince) {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    std::mt19937 random(seed);
    const size_t pieces = 1 + random() % 40, touches = random() % 300;
    std::vector<Touch> run;
    for (size_t i = 0; i < touches; ++i)
      run.push_back({random() % pieces, static_cast<int64_t>(random() % 5000)});
    const std::vector<int64_t> distances = reuse_distances(run);
    ASSERT_EQ(distances.size(), touches);
    std::vector<Touch> recent;  // the last one in front
    for (size_t i = 0; i < 3 * touches; ++i) {
      const Touch& touch = run[i % touches];
      int64_t expected = 0;
      auto found = recent.begin();
      for (; found != recent.end() && found->piece != touch.piece; ++found)
        expected += found->bytes;
      if (i >= touches) {
        ASSERT_EQ(distances[i % touches], expected) << "seed " << seed << ", touch " << i;
      }
      if (found != recent.end()) recent.erase(found);
      recent.insert(recent.begin(), touch);
    }
  }
}

}  // namespace
}  // namespace ridge::cost
