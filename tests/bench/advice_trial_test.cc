// SPDX-License-Identifier: Apache-2.0
// Trials of advice: which steps they run, and whether all of them run at once.
#include "bench/advice_trial.h"

#include <gtest/gtest.h>

namespace ridge::bench {
namespace {

// The step as it is owns 100 bytes and those of the advice 30 and 20.
AdviceTrials trials(int64_t steps, int64_t available_bytes) {
  measure::TrainingExperiment before;
  before.instrument = true;
  before.warmup_steps = 2;
  before.steps = steps;
  std::vector<Advice> advice(2);
  for (Advice& each : advice) each.changed.instrument = true;
  for (Advice& each : advice) each.changed.warmup_steps = 2;
  advice[0].after_peak_bytes = 30;
  advice[1].after_peak_bytes = 20;
  return plan_trials(std::move(before), advice, 100, available_bytes);
}

TEST(AdviceTrials, RunPlainStepsEnoughForAClearAnswer) {
  for (int64_t steps : {int64_t{1}, record::kLeastClearSteps + 5}) {
    const AdviceTrials made = trials(steps, 300);
    ASSERT_EQ(made.changed.size(), 2u);
    for (const measure::TrainingExperiment* each :
         {&made.before, &made.changed[0], &made.changed[1]}) {
      EXPECT_FALSE(each->instrument);
      EXPECT_EQ(each->steps, std::max(steps, record::kLeastClearSteps));
    }
  }
}

// The others of a machine need memory too, so half of it is left.
TEST(AdviceTrials, RunAtOnceWhereAllFit) {
  const int64_t steps = 2 + record::kLeastClearSteps;
  EXPECT_TRUE(trials(1, 300).fit);
  EXPECT_EQ(trials(1, 300).steps(), 3 * steps);
  EXPECT_FALSE(trials(1, 299).fit);
  EXPECT_EQ(trials(1, 299).steps(), 4 * steps);  // the step as it is beside each change
}

}  // namespace
}  // namespace ridge::bench
