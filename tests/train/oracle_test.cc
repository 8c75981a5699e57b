// SPDX-License-Identifier: Apache-2.0
// The first losses of the published run. oracle_slow_test.cc tests all of it at every level.
#include <gtest/gtest.h>

#include "train/small_run.h"

namespace ridge::train {
namespace {

TEST(Oracle, TheSixthStepOfSmallLosesWhatThePublishedRunLost) {
  const models::Preset& preset = models::preset("small");
  StepOptions options;
  options.batch_size = preset.batch_size;
  options.sequence = preset.sequence;
  std::vector<double> losses = train(preset.config, options, "compiled", "", 6);
  // Five warm-up steps come before the one that was printed as step 0, with four decimals.
  EXPECT_NEAR(losses[5], 7.0185, 5e-5);
}

}  // namespace
}  // namespace ridge::train
