// SPDX-License-Identifier: Apache-2.0
// Spikes are recognized, remembered across runs, and leave no trace in the weights.
#include "train/spike_guard.h"

#include "files/scratch.h"
#include "train/saved_state.h"
#include "train/small_run.h"

namespace ridge::train {
namespace {

TEST(SpikeGuard, ComparesWithTheLossesBefore) {
  SpikeGuard guard(4);
  EXPECT_TRUE(guard.is_spike(NAN));
  // Alternating 1 and 3: mean 2, standard deviation sqrt(20 / 19).
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(guard.is_spike(i % 2 == 0 ? 1 : 3));
  EXPECT_TRUE(guard.is_spike(2 + 4.01 * std::sqrt(20.0 / 19)));
  EXPECT_NEAR(guard.deviations(), 4.01, 1e-12);
  EXPECT_TRUE(guard.is_spike(INFINITY));
  SpikeGuard other(4);
  other.restore(guard.losses());
  EXPECT_FALSE(other.is_spike(2 + 3.99 * std::sqrt(20.0 / 19)));
  EXPECT_FALSE(guard.is_spike(-100));
  for (int i = 0; i < 300; ++i) guard.is_spike(0);
  EXPECT_EQ(guard.losses(), std::vector<double>(SpikeGuard::kMost, 0.0));
}

TEST(SpikeGuard, LeavesUpdatesOutOrEndsTheTraining) {
  SpikeGuard skipping(4), stopping(4, true);
  for (SpikeGuard* guard : {&skipping, &stopping})
    for (int i = 0; i < 20; ++i) EXPECT_FALSE(guard->skips_update(i % 2 == 0 ? 1 : 3));
  EXPECT_TRUE(skipping.skips_update(100));
  EXPECT_FALSE(skipping.skips_update(2));
  EXPECT_EQ(skipping.skipped(), 1);
  files::expect_error([&] { stopping.skips_update(100); }, ExitCode::kRuntime,
                      "[spike-guard] the loss 100 is 95.5 standard deviations above those before");
}

class SkippedStepTest : public testing::TestWithParam<const char*> {};

TEST_P(SkippedStepTest, LeavesWeightsAndMomentsAsTheyWere) {
  const std::string switches = std::string(GetParam()) == "compiled" ? "-tune_gemm" : "";
  for (const int64_t micro_batches : {1, 2}) {
    StepOptions options = small_step(kLearningByHeart);
    options.micro_batches = micro_batches;
    options.optimizer.clip_norm = 1;
    const auto trained = [&](bool separates) {
      options.separates_update = separates;
      auto backend = cpu_backend(1);
      Trainer trainer({small_config(), options, passes::Selection(GetParam(), switches)}, *backend);
      SyntheticData data = synthetic_data(trainer);
      std::vector<double> seen;
      int64_t count = 0;
      if (separates) trainer.guard([&](double) { return ++count == 3; });
      for (int step = 1; step <= 6; ++step) {
        const StepResult result = trainer.step(read_step(data, options));
        seen.push_back(result.loss);
        EXPECT_EQ(result.skipped, separates && step == 3);
        EXPECT_EQ(result.gradient_norm > 0, !result.skipped);
      }
      return seen;
    };
    const std::vector<double> plain = trained(false), skipping = trained(true);
    // The third update is the first that differs.
    for (size_t i = 0; i < 6; ++i)
      EXPECT_EQ(std::abs(plain[i] - skipping[i]) < 1e-5, i < 3) << "step " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, SkippedStepTest, every_level());

}  // namespace
}  // namespace ridge::train
