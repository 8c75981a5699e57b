// SPDX-License-Identifier: Apache-2.0
// Tests of clocks that are compared by exchanges.
#include "runtime/rank_clock.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace ridge::runtime {
namespace {

// A rank whose clock is `ahead_ns` enters some exchanges before or after the first rank; nobody
// leaves one before both have entered it.
TEST(RankClock, ExchangesBoundTheDifference) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> late_ns(0, 2e4), on_the_way_ns(2e3, 3e4);
  for (const double ahead_ns : {-3e9, -7e3, 0.0, 2.5e6}) {
    std::vector<ClockReading> first, own;
    double now_ns = 1e12;
    for (int i = 0; i < 16; ++i) {
      const double a = now_ns + late_ns(random), b = now_ns + late_ns(random);
      const double both = std::max(a, b);
      first.push_back({a, both + on_the_way_ns(random)});
      own.push_back({b + ahead_ns, both + on_the_way_ns(random) + ahead_ns});
      now_ns += 1e5;
    }
    const ClockOffset offset = clock_offset(first, own);
    EXPECT_NEAR(offset.ahead_ns, ahead_ns, offset.error_ns);
    EXPECT_LT(offset.error_ns, 1e4);
    // More exchanges never make the bounds wider.
    EXPECT_LE(offset.error_ns, clock_offset(std::span(first).first(1), own).error_ns);
  }
}

TEST(RankClock, ReadingsThatContradictLeaveNoNegativeError) {
  const std::vector<ClockReading> first = {{0, 10}, {100, 110}}, own = {{1000, 1010}, {0, 10}};
  EXPECT_GE(clock_offset(first, own).error_ns, 0);
}

}  // namespace
}  // namespace ridge::runtime
