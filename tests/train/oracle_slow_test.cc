// SPDX-License-Identifier: Apache-2.0
// The complete published run, five warm-up steps and the twenty printed ones, at each level, in
// fp32 and bf16. Also fifty steps of tiny, which must be the same twice.
#include <gtest/gtest.h>

#include <bit>
#include <numeric>

#include "train/small_run.h"

namespace ridge::train {
namespace {

constexpr int kWarmup = 5;
constexpr int kSteps = 20;
constexpr double kFourDecimals = 5e-5;

struct Published {
  double step_0, step_10, mean;
};
constexpr Published kPublished{7.0185, 6.9978, 6.9556};

Published follow(std::string_view level, std::string_view switches, int threads) {
  const models::Preset& preset = models::preset("small");
  StepOptions options;
  options.batch_size = preset.batch_size;
  options.sequence = preset.sequence;
  std::vector<double> losses =
      train(preset.config, options, level, switches, kWarmup + kSteps, threads);
  double sum = std::accumulate(losses.begin() + kWarmup, losses.end(), 0.0);
  return {losses[kWarmup], losses[kWarmup + 10], sum / kSteps};
}

class Oracle : public testing::TestWithParam<std::string> {};

TEST_P(Oracle, MatchesInFp32ToFourDecimals) {
  Published got = follow(GetParam(), "", 1);
  EXPECT_NEAR(got.step_0, kPublished.step_0, kFourDecimals);
  EXPECT_NEAR(got.step_10, kPublished.step_10, kFourDecimals);
  EXPECT_NEAR(got.mean, kPublished.mean, kFourDecimals);
}

TEST_P(Oracle, MatchesInBf16WithinTwoHundredths) {
  Published got = follow(GetParam(), "+autocast_bf16", 2);
  EXPECT_NEAR(got.step_0, kPublished.step_0, 0.02);
  EXPECT_NEAR(got.step_10, kPublished.step_10, 0.02);
  EXPECT_NEAR(got.mean, kPublished.mean, 0.02);
}

TEST_P(Oracle, TinyIsTheSameTwice) {
  const models::Preset& preset = models::preset("tiny");
  StepOptions options;
  options.batch_size = preset.batch_size;
  options.sequence = preset.sequence;
  for (int threads : {1, 2}) {
    std::vector<double> first = train(preset.config, options, GetParam(), "", 50, threads);
    std::vector<double> second = train(preset.config, options, GetParam(), "", 50, threads);
    for (size_t i = 0; i < first.size(); ++i)
      ASSERT_EQ(std::bit_cast<uint64_t>(first[i]), std::bit_cast<uint64_t>(second[i]))
          << threads << " threads, step " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, Oracle, every_level(), level_name<Oracle::ParamType>);

}  // namespace
}  // namespace ridge::train
