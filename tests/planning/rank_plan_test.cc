// SPDX-License-Identifier: Apache-2.0
// Tests of plans of several ranks: what each sends, what all execute, and what they hold.
#include "planning/rank_plan.h"

#include <gtest/gtest.h>

#include "backends/null/null_backend.h"
#include "models/llama_shape.h"
#include "planning/step_plan.h"

namespace ridge::planning {
namespace {

train::TrainingSetup setup_of(int64_t ranks, int64_t micro_batches = 1) {
  train::TrainingSetup setup;
  setup.config = models::llama_shape("test", {64, 32, 2, 4, 2, 8, 48, 16});
  setup.step.batch_size = 2;
  setup.step.sequence = 16;
  setup.step.micro_batches = micro_batches;
  setup.setting.switches = fmt::format("+data_parallel={}", ranks);
  setup.selection = passes::Selection("compiled", setup.setting.switches);
  return setup;
}

record::RankPlan plan(int64_t ranks, int64_t micro_batches = 1) {
  const auto target = backends::null::make_null_target({});
  return plan_ranks(setup_of(ranks, micro_batches), ranks, *target, nullptr, [](auto...) {});
}

TEST(RankPlan, SendsTheGradientsAndTheLossOfARing) {
  const record::RankPlan four = plan(4);
  const int64_t bytes = 4 * (setup_of(4).config.parameters() + 1);
  ASSERT_EQ(four.collectives.size(), 1u);
  EXPECT_EQ(four.collectives[0].bytes, bytes);
  EXPECT_EQ(four.collectives[0].ranks, 4);
  EXPECT_EQ(four.sent_bytes(), 2 * ((bytes + 3) / 4) * 3);
  EXPECT_EQ(plan(1).sent_bytes(), 0);
}

// A micro-batch sends its loss, and the update the sums of all gradients.
TEST(RankPlan, SendsGradientsOnceForAllMicroBatches) {
  const record::RankPlan two = plan(2, 4);
  ASSERT_EQ(two.collectives.size(), 2u);
  EXPECT_EQ(two.collectives[0].repeat, 4);
  EXPECT_EQ(two.collectives[0].bytes, 4);
  EXPECT_EQ(two.collectives[1].repeat, 1);
  EXPECT_EQ(two.collectives[1].bytes, 4 * setup_of(2).config.parameters());
}

// The ranks share the model's work, and each makes the whole update and adds up its part of the
// gradients.
TEST(RankPlan, FlopsOfAllRanksAreTheModelsAndTheRepeatedUpdate) {
  const auto target = backends::null::make_null_target({});
  train::TrainingSetup whole = setup_of(1);
  whole.step.batch_size = 2 * 4;
  const record::RunRecord one = plan_step(whole, *target, nullptr);
  const record::RankPlan four = plan(4);
  EXPECT_EQ(four.model_flops, static_cast<double>(one.model.step().flops));
  EXPECT_EQ(four.one_rank_flops, static_cast<double>(one.executed.flops));
  const double update = static_cast<double>(one.model.optimizer.flops),
               sums = 3.0 * static_cast<double>(setup_of(4).config.parameters());
  // The sums of the loss and of gradients of weights that are no multiple of 4 are rounded down.
  EXPECT_NEAR(four.repeated_flops(), 3 * update + sums, 0.02 * sums);
}

}  // namespace
}  // namespace ridge::planning
