// SPDX-License-Identifier: Apache-2.0
// Medians and their intervals, against their definition and by trials.
#include "base/samples.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

namespace ridge {
inline namespace base {
namespace {

// 1, 2, ... n in a scrambled order, so that the ends of the interval are the ranks themselves.
std::vector<double> ranks(int n) {
  std::vector<double> values(static_cast<size_t>(n));
  std::iota(values.begin(), values.end(), 1.0);
  std::mt19937 engine(3);
  std::shuffle(values.begin(), values.end(), engine);
  return values;
}

TEST(Samples, MedianOfOddAndEvenCounts) {
  EXPECT_EQ(median(std::vector<double>{}), 0);
  EXPECT_EQ(median(std::vector<double>{7}), 7);
  EXPECT_EQ(median(std::vector<double>{9, 1, 5}), 5);
  EXPECT_EQ(median(std::vector<double>{9, 1, 5, 2}), 3.5);
}

// The critical values of the sign test at the two-sided 5% level from statistics books: the
// interval excludes that many samples at each end.
TEST(Samples, RanksFollowTheTableOfTheSignTest) {
  struct IntervalRow {
    int n, left_out;
  };
  for (IntervalRow row :
       {IntervalRow{6, 0}, IntervalRow{7, 0}, IntervalRow{8, 0}, IntervalRow{9, 1},
        IntervalRow{10, 1}, IntervalRow{11, 1}, IntervalRow{12, 2}, IntervalRow{15, 3},
        IntervalRow{16, 3}, IntervalRow{17, 4}, IntervalRow{20, 5}, IntervalRow{25, 7},
        IntervalRow{30, 9}, IntervalRow{40, 13}, IntervalRow{50, 17}, IntervalRow{100, 39}}) {
    Summary s = summarize(ranks(row.n));
    EXPECT_EQ(s.low, row.left_out + 1) << row.n;
    EXPECT_EQ(s.high, row.n - row.left_out) << row.n;
    EXPECT_GE(s.coverage, 0.95) << row.n;
    EXPECT_EQ(s.count, row.n);
  }
}

TEST(Samples, FewSamplesSayWhatTheirIntervalIsWorth) {
  EXPECT_DOUBLE_EQ(summarize(ranks(1)).coverage, 0);
  EXPECT_NEAR(summarize(ranks(2)).coverage, 0.5, 1e-12);
  EXPECT_NEAR(summarize(ranks(5)).coverage, 0.9375, 1e-12);
  EXPECT_NEAR(summarize(ranks(6)).coverage, 0.96875, 1e-12);
  EXPECT_EQ(summarize(std::vector<double>{}).count, 0);
}

TEST(Samples, LongRunsDoNotUnderflow) {
  Summary s = summarize(ranks(5000));
  EXPECT_GE(s.coverage, 0.95);
  EXPECT_LT(s.coverage, 0.96);
  // The normal approximation: half the count, 1.96 half square roots to either side.
  EXPECT_NEAR(s.low, 2500 - 0.98 * std::sqrt(5000.0), 2);
}

// Draws from a skewed distribution with median ln 2. The interval must contain it in at least 95%
// of the trials.
TEST(Samples, IntervalHoldsTheTrueMedian) {
  std::mt19937 engine(11);
  std::exponential_distribution<double> draw(1.0);
  constexpr int kTrials = 4000;
  int held = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<double> values(13);
    for (double& value : values) value = draw(engine);
    Summary s = summarize(values);
    held += s.low <= std::log(2.0) && std::log(2.0) <= s.high;
  }
  double expected = summarize(ranks(13)).coverage;
  EXPECT_NEAR(static_cast<double>(held) / kTrials, expected, 0.012);
  EXPECT_GE(expected, 0.95);
}

TEST(Samples, OverlapIsSymmetricAndCountsTouching) {
  Summary a{10, 5, 4, 6, 0.97}, b{10, 7, 6, 8, 0.97}, c{10, 9, 8.5, 9.5, 0.97};
  EXPECT_TRUE(overlap(a, b));
  EXPECT_TRUE(overlap(b, a));
  EXPECT_FALSE(overlap(a, c));
  EXPECT_FALSE(overlap(c, a));
  EXPECT_DOUBLE_EQ(a.spread(), 0.2);
}

}  // namespace
}  // namespace base
}  // namespace ridge
