// SPDX-License-Identifier: Apache-2.0
// Tests of plans of several ranks: what each sends, what all execute, and what they hold.
#include "planning/rank_plan.h"

#include <gtest/gtest.h>

#include "backends/null/null_backend.h"
#include "cost/hardware.h"
#include "files/scratch.h"
#include "models/llama_shape.h"
#include "plan/collectives.h"
#include "planning/stage_times.h"
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

// --- Ranks that share models. ---

train::TrainingSetup shared_setup(int64_t ranks, int64_t sharing, const char* more = "") {
  train::TrainingSetup setup = setup_of(ranks / sharing);
  setup.setting.switches += fmt::format(",+train_tensor_parallel={}{}", sharing, more);
  setup.selection = passes::Selection("compiled", setup.setting.switches);
  return setup;
}

record::RankPlan shared_plan(int64_t ranks, int64_t sharing, const char* more = "") {
  const auto target = backends::null::make_null_target({});
  return plan_ranks(shared_setup(ranks, sharing, more), ranks, *target, nullptr, [](auto...) {});
}

int64_t macs(const train::TrainingStep& step, const passes::PassTarget& target) {
  int64_t sum = 0;
  for (const train::StepGraph& each : step.graphs)
    sum +=
        cost::total(cost::program_graph(each.name, each.graph, 1, target).costed->costs).work.macs;
  return sum;
}

int64_t macs_of_ranks(int64_t ranks) {
  const auto target = backends::null::make_null_target({});
  int64_t sum = 0;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    train::TrainingSetup setup = shared_setup(ranks, ranks);
    setup.step.shard = {0, 1, nullptr, rank, ranks};
    sum += macs(train::build_step(setup, *target), *target);
  }
  return sum;
}

// All products of the model are cut, so the ranks' are those of one; four ranks make the
// products of k and v of two KV heads twice.
TEST(RankPlan, RanksThatShareAModelShareItsProducts) {
  const auto target = backends::null::make_null_target({});
  const train::TrainingSetup one = setup_of(1);
  const int64_t alone = macs(train::build_step(one, *target), *target);
  EXPECT_EQ(macs_of_ranks(2), alone);
  const int64_t tokens = one.step.batch_size * one.step.sequence;
  const int64_t kv = one.config.kv_heads * one.config.head_size, products = 3 * 2;
  EXPECT_EQ(macs_of_ranks(4),
            alone + one.config.layers * products * tokens * one.config.hidden * kv);
}

// The ranks repeat norms and residual adds, which parts of the tokens share out, and the updates of
// norms.
TEST(RankPlan, PartsOfTokensRepeatLess) {
  const record::RankPlan whole = shared_plan(2, 2),
                         parts = shared_plan(2, 2, ",+sequence_parallel");
  EXPECT_EQ(whole.model_flops, parts.model_flops);
  EXPECT_EQ(whole.one_rank_flops, parts.one_rank_flops);
  EXPECT_GT(parts.repeated_flops(), 0);
  EXPECT_LT(parts.repeated_flops(), 0.7 * whole.repeated_flops());
}

TEST(RankPlan, CopiesOfTheModelAverageTheirParts) {
  const record::RankPlan plan = shared_plan(8, 2);
  EXPECT_EQ(plan.ranks, 8);
  int64_t data_bytes = 0;
  for (const record::PlannedCollective& each : plan.collectives) {
    EXPECT_EQ(each.ranks, each.group == "data" ? 4 : 2) << each.group;
    if (each.group == "data") data_bytes += each.bytes;
  }
  // The loss; the gradients of the rank's parts, and of the norms, which each rank has.
  const models::ModelConfig config = setup_of(1).config;
  const int64_t norms = (2 * config.layers + 1) * config.hidden;
  EXPECT_EQ(data_bytes, 4 * (1 + norms + (config.parameters() - norms) / 2));
  train::TrainingSetup one = setup_of(1);
  one.step.batch_size = 2 * 4;
  const auto target = backends::null::make_null_target({});
  EXPECT_EQ(plan.model_flops,
            static_cast<double>(plan_step(one, *target, nullptr).model.step().flops));
}

// --- Stages of a pipeline. ---

train::TrainingSetup staged_setup(int64_t micro_batches, const train::PipelineOptions& pipeline) {
  train::TrainingSetup setup = setup_of(1, micro_batches);
  setup.config.layers = 4;
  setup.selection = passes::Selection("compiled", "+data_parallel=2,+train_tensor_parallel=2");
  setup.step.shard.stages = 2;
  setup.step.pipeline = pipeline;
  return setup;
}

TEST(RankPlan, StagesTakeTurns) {
  const auto target = backends::null::make_null_target({});
  const cost::Ceilings ceilings = cost::ceilings_of(*cost::find_hardware("h200"));
  const auto plan = [&](int64_t micro_batches, const train::PipelineOptions& pipeline) {
    return plan_ranks(staged_setup(micro_batches, pipeline), 8, *target, &ceilings, [](auto...) {});
  };
  const record::RankPlan two = plan(2, {}), eight = plan(8, {});
  EXPECT_EQ(two.stages, 2);
  EXPECT_GT(two.bubble_share, eight.bubble_share) << "more micro-batches keep stages at work";
  EXPECT_GT(eight.bubble_share, 0);
  EXPECT_LT(eight.bubble_share, 1);
  EXPECT_GT(eight.step_ns, two.step_ns);
  int64_t sent = 0;
  for (const record::PlannedCollective& each : eight.collectives)
    if (each.op == "send") sent += each.repeat * each.sent_bytes;
  EXPECT_EQ(sent, 8 * int64_t{4} * 2 * 16 * 32) << "hidden states of 8 micro-batches, 2 x 16 x 32";
}

// Times of stages that compute for 1 and then 2 units, by hand.
TEST(RankPlan, WaitsAreThoseOfTheSchedule) {
  using enum StageEvent::Kind;
  const StageTimes times = simulate({{{kCompute, 10},
                                      {kSend, 1, "pipeline.0"},
                                      {kReceive, 1, "pipeline.0"},
                                      {kCompute, 20},
                                      {kMeet, 2, "pipeline"}},
                                     {{kReceive, 1, "pipeline.0"},
                                      {kCompute, 30},
                                      {kSend, 1, "pipeline.0"},
                                      {kMeet, 2, "pipeline"}}});
  EXPECT_EQ(times.step_ns, 10 + 1 + 30 + 1 + 20 + 2);
  EXPECT_EQ(times.busy_ns, (std::vector<double>{30, 30}));
  EXPECT_DOUBLE_EQ(times.bubble_share(), 1 - 60.0 / 128);
}

TEST(RankPlan, RefusesRanksThatDoNotMakeWholeCopies) { EXPECT_THROW(shared_plan(6, 4), Error); }

TEST(RankPlan, NamesTheRanksThatShareAModel) {
  files::expect_error([] { shared_plan(6, 4); }, ExitCode::kUsage,
                      "[ranks] expected a multiple of the 4 that share a model, got 6");
}

TEST(RankPlan, ListsACollectiveByItsTensors) {
  plan::Collective collective;
  collective.graph = "step", collective.op = "all_reduce", collective.scope = "loss";
  collective.phase = "backward", collective.group = "data", collective.ranks = 4;
  collective.tensors = {{DType::kF32, Shape{3, 5}}, {DType::kBF16, Shape{7}}};
  collective.sent_bytes = 200;
  cost::Ceilings ceilings = cost::ceilings_of(*cost::find_hardware("h200"));
  ceilings.links = {{"two", 2, 1, 1}, {"four", 4, 2, 30}};
  const record::PlannedCollective made = planned_collective(collective, 6, &ceilings);
  EXPECT_EQ(made.op, "all_reduce");
  EXPECT_EQ(made.graph, "step");
  EXPECT_EQ(made.scope, "loss");
  EXPECT_EQ(made.phase, "backward");
  EXPECT_EQ(made.group, "data");
  EXPECT_EQ(made.ranks, 4);
  EXPECT_EQ(made.tensors, 2);
  EXPECT_EQ(made.bytes, 4 * 15 + 2 * 7);
  EXPECT_EQ(made.sent_bytes, 200);
  EXPECT_EQ(made.repeat, 6);
  EXPECT_EQ(made.predicted_ns, 30 + 200 / 2) << "by the link of four";
  EXPECT_EQ(planned_collective(collective, 6, nullptr).predicted_ns, 0);
}

TEST(RankPlan, TellsOfEachRank) {
  std::vector<std::string> told;
  const auto target = backends::null::make_null_target({});
  plan_ranks(setup_of(3), 3, *target, nullptr,
             [&](std::string_view search, std::string_view unit, const std::string& trial) {
               told.push_back(fmt::format("{} {} {}", search, unit, trial));
             });
  EXPECT_EQ(told, (std::vector<std::string>{"ranks ranks rank 0", "ranks ranks rank 1",
                                            "ranks ranks rank 2"}));
}

// A rank with another length, and one with another order of its passes.
TEST(RankPlan, NamesTheFirstCollectiveThatDiffers) {
  const auto target = backends::null::make_null_target({});
  const auto text = [&](int64_t rank, const train::TrainingSetup& given) {
    train::TrainingSetup setup = given;
    setup.step.shard = {0, 1, nullptr, rank, 2};
    std::vector<plan::Collective> collectives;
    for (const train::StepGraph& each : train::build_step(setup, *target).graphs)
      plan::append_collectives(each.name, each.graph, collectives);
    return plan::collectives_text(collectives);
  };
  const train::TrainingSetup setup = shared_setup(2, 2);
  train::TrainingSetup longer = setup, narrow = shared_setup(2, 2, ",+autocast_bf16");
  longer.step.sequence = 24;
  const std::string first = text(0, setup);
  EXPECT_EQ(plan::first_mismatch(std::vector{first, text(1, setup)}), "");
  EXPECT_NE(
      plan::first_mismatch(std::vector{first, text(1, longer)})
          .find("collective 0: rank 0 has all_reduce in step: embedding over 2 ranks of tensor "
                "(f32[32,32]), rank 1 has"),
      std::string::npos)
      << plan::first_mismatch(std::vector{first, text(1, longer)});
  EXPECT_NE(plan::first_mismatch(std::vector{first, text(1, narrow)}).find("rank 1 has"),
            std::string::npos);
}

}  // namespace
}  // namespace ridge::planning
