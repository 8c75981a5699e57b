// SPDX-License-Identifier: Apache-2.0
// The figures of a step from a plan with round numbers.
#include "measure/step_figures.h"

#include <gtest/gtest.h>

namespace ridge::measure {
namespace {

TEST(StepFigures, FollowFromTheResultAndThePlan) {
  record::RunRecord plan;
  plan.setting.batch_size = 2;
  plan.setting.sequence = 10;
  plan.model.forward.macs = 1'000'000'000, plan.model.backward.macs = 2'000'000'000;
  train::OptimizerOptions optimizer;
  optimizer.learning_rate = 1;
  optimizer.warmup_steps = 8;
  std::vector<record::StepMetrics> steps;
  const cost::ReferenceRate peak{.per_ns = 24};
  StepFigures figures(plan, peak, optimizer, 3, [&](const auto& step) { steps.push_back(step); });
  EXPECT_EQ(figures.attended(), 1);
  train::StepResult result;
  result.elapsed_ns = 1e9;
  result.loss = 5;
  result.attended = 0.5;
  figures.after_step({-1, false, result});  // a warm-up step
  figures.after_step({0, true, result});
  result.elapsed_ns = 5e8;
  result.attended = 0.25;
  result.overflowed = result.skipped = true;
  result.loss_scale = 4;
  figures.after_step({1, false, result});
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].step, 0);
  EXPECT_TRUE(steps[0].instrumented);
  EXPECT_EQ(steps[0].loss, 5);
  EXPECT_DOUBLE_EQ(steps[0].samples_per_s, 2);
  EXPECT_DOUBLE_EQ(steps[0].tokens_per_s, 20);
  EXPECT_DOUBLE_EQ(steps[0].learning_rate, 0.5);  // the fourth of eight steps of warm-up
  EXPECT_GT(steps[0].resident_bytes, 0);
  EXPECT_DOUBLE_EQ(steps[0].model_flops_per_s, 6e9);
  EXPECT_DOUBLE_EQ(steps[0].mfu, 0.25);
  EXPECT_EQ(steps[0].overflows, 0);
  EXPECT_EQ(steps[0].attended, 0.5);
  EXPECT_EQ(steps[1].step, 1);
  EXPECT_FALSE(steps[1].instrumented);
  EXPECT_DOUBLE_EQ(steps[1].tokens_per_s, 40);
  EXPECT_DOUBLE_EQ(steps[1].mfu, 0.5);
  EXPECT_EQ(steps[1].overflows, 1);
  EXPECT_TRUE(steps[1].skipped);
  EXPECT_EQ(steps[1].loss_scale, 4);
  EXPECT_EQ(steps[1].attended, 0.25);
  EXPECT_DOUBLE_EQ(figures.attended(), 0.375);
}

}  // namespace
}  // namespace ridge::measure
