// SPDX-License-Identifier: Apache-2.0
// The error of gains against logarithms worked out by hand, and confidence against the published
// values of the normal distribution.
#include "record/lab_record.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace ridge::record {
namespace {

RunRecord run(double predicted_ns, double measured_ns, int64_t batch = 8) {
  RunRecord record;
  record.setting.model = "small";
  record.setting.batch_size = batch;
  record.setting.sequence = 128;
  record.predicted_ns = predicted_ns;
  record.plain_wall_ns.assign(8, measured_ns);
  return record;
}

TEST(GainError, IsTheRootMeanSquareOverPairsOfEqualWork) {
  // Predicted twice as fast, and measured so: no error, whatever both predictions are off by.
  EXPECT_DOUBLE_EQ(gain_error(std::vector{run(300, 200), run(150, 100)}), kLeastGainError);
  // Predicted 2, measured 1.6.
  EXPECT_DOUBLE_EQ(gain_error(std::vector{run(200, 160), run(100, 100)}), std::log(1.25));
  // Three runs have three pairs, with errors of ln 1.25, ln 1.25 and 0.
  EXPECT_DOUBLE_EQ(gain_error(std::vector{run(200, 160), run(100, 100), run(50, 50)}),
                   std::log(1.25) * std::sqrt(2.0 / 3));
  // One has other work, one is not predicted, one not measured.
  EXPECT_EQ(gain_error(std::vector{run(200, 160), run(100, 100, 4)}), kUnknownGainError);
  EXPECT_EQ(gain_error(std::vector{run(200, 160), run(0, 100)}), kUnknownGainError);
  EXPECT_EQ(gain_error(std::vector{run(200, 160)}), kUnknownGainError);
}

TEST(GainConfidence, FollowsTheNormalDistribution) {
  EXPECT_DOUBLE_EQ(gain_confidence(0, 0.1), 0.5);
  // One and 1.645 standard deviations.
  EXPECT_NEAR(gain_confidence(std::expm1(0.1), 0.1), 0.841345, 1e-6);
  EXPECT_NEAR(gain_confidence(std::expm1(0.1645), 0.1), 0.95002, 1e-5);
  EXPECT_NEAR(gain_confidence(std::expm1(-0.1), 0.1), 1 - 0.841345, 1e-6);
  EXPECT_EQ(gain_confidence(0.01, 0), 1);
  EXPECT_EQ(gain_confidence(-0.01, 0), 0);
  EXPECT_EQ(gain_confidence(-1, 0.1), 0);
}

}  // namespace
}  // namespace ridge::record
