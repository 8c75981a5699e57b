// SPDX-License-Identifier: Apache-2.0
// One measured run: the contents of its record, and the sums of its parts.
#include "measure/training_run.h"

#include <gtest/gtest.h>

#include "cost/made_up_ceilings.h"
#include "measure/whole_run.h"
#include "planning/step_plan.h"
#include "train/small_run.h"

namespace ridge::measure {
namespace {

using train::cpu_backend;
using train::small_config;
using train::small_step;

cost::Ceilings ceilings() {
  cost::Ceilings c = cost::made_up_ceilings({{1 << 16, 80, 80}, {1 << 30, 8, 8}}, 50);
  c.arithmetic_flops_per_ns = 10;
  c.transcendentals_per_ns = 1;
  c.launch_ns = 500;
  return c;
}

TrainingExperiment small_experiment(const std::string& level, int64_t micro_batches = 1) {
  TrainingExperiment e;
  e.setting.model = "test";
  e.setting.level = level;
  e.setting.dtype = "fp32";
  e.config = small_config();
  e.step = small_step();
  e.step.micro_batches = micro_batches;
  e.selection = passes::Selection(level, "");
  e.warmup_steps = 2;
  e.steps = 9;
  return e;
}

// After a checkpoint the steps are sampled as from the start, and the others overlap.
TEST(StepMeter, SamplesFromTheFirstStepAfterACheckpoint) {
  constexpr int64_t kFirst = 101, kSteps = 80;
  auto backend = cpu_backend(1);
  TrainingExperiment e = small_experiment("fused");
  e.waits = false;
  e.steps = kSteps;
  const StepMeter from_start(e, *backend, nullptr);
  e.first_step = kFirst;
  e.steps = kFirst + kSteps;
  const StepMeter later(e, *backend, nullptr);
  int alone = 0;
  for (int64_t step = 0; step < kSteps; ++step) {
    EXPECT_EQ(later.forms().is_alone(kFirst + step), from_start.forms().is_alone(step)) << step;
    EXPECT_EQ(later.forms().is_instrumented(kFirst + step),
              from_start.forms().is_instrumented(step))
        << step;
    alone += later.forms().is_alone(kFirst + step) ? 1 : 0;
  }
  EXPECT_GT(alone, 0);
  EXPECT_LT(alone, kSteps);
}

TEST(Experiment, StepsAlternateAndTheLossesAreThoseOfATrainer) {
  TrainingExperiment e = small_experiment("fused");
  auto backend = cpu_backend(1);
  cost::Ceilings limits = ceilings();
  std::vector<int64_t> indices;
  std::string kinds;
  record::RunRecord run =
      measure_training(e, *backend, &limits, [&](const train::StepEvent& event) {
        indices.push_back(event.index);
        kinds += event.instrumented ? 'i' : 'p';
      });
  EXPECT_EQ(indices, (std::vector<int64_t>{-2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(kinds, "pppiipippip");
  EXPECT_EQ(run.plain_wall_ns.size(), 5u);
  EXPECT_EQ(run.step.wall_samples_ns.size(), 4u);

  train::Trainer trainer(e, *backend);
  train::SyntheticData data = train::synthetic_data(trainer);
  train::losses(trainer, data, 2);
  EXPECT_EQ(run.losses, train::losses(trainer, data, 9));  // bit for bit
  // All steps have times, in their order.
  ASSERT_EQ(run.all_wall_ns.size(), 9u);
  for (size_t i = 0, plain = 0; i < 9; ++i)
    if (kinds[2 + i] == 'p') {
      EXPECT_EQ(run.all_wall_ns[i], run.plain_wall_ns[plain++]) << i;
    }
}

// Half of the first 16 steps, then two of each 64, each next to a plain one.
TEST(Experiment, LongRunsAreSampled) {
  TrainingExperiment e = small_experiment("baseline");
  e.steps = 131;
  e.waits = false;
  auto backend = cpu_backend(1);
  std::string kinds;
  record::RunRecord run =
      measure_training(e, *backend, nullptr, [&](const train::StepEvent& event) {
        if (event.index >= 0) kinds += event.instrumented ? 'i' : 'p';
      });
  EXPECT_EQ(kinds,
            "piipippipiipippi" + std::string(48, 'p') + "ippi" + std::string(60, 'p') + "pii");
  EXPECT_EQ(run.step.wall_samples_ns.size(), 12u);
  EXPECT_EQ(run.plain_wall_ns.size(), 119u);
  EXPECT_EQ(run.paired_wall_ns.size(), 11u);
  EXPECT_DOUBLE_EQ(run.profiling_cost_of_run(), run.profiling_cost().median * 12 / 131);
}

TEST(Experiment, RoundsMakeTheSameStepsAsOneRun) {
  auto backend = cpu_backend(1), other = cpu_backend(1);
  cost::Ceilings limits = ceilings();
  record::RunRecord whole = measure_training(small_experiment("fused"), *backend, &limits);
  TrainingRun fused(small_experiment("fused"), *backend, &limits);
  TrainingExperiment second = small_experiment("baseline");
  second.foreign_bytes = fused.record().memory.foreign_bytes;
  TrainingRun baseline(second, *other, &limits);
  int rounds = 0;
  for (; !fused.is_done(); ++rounds)
    for (TrainingRun* each : {&fused, &baseline}) each->run_round(4);
  EXPECT_EQ(rounds, 3);  // 9 steps in all
  EXPECT_TRUE(baseline.is_done());
  record::RunRecord record = fused.record();
  EXPECT_EQ(record.losses, whole.losses);  // bit for bit
  EXPECT_EQ(record.plain_wall_ns.size(), whole.plain_wall_ns.size());
  EXPECT_EQ(record.step.wall_samples_ns.size(), whole.step.wall_samples_ns.size());
  EXPECT_EQ(record.memory.allocated_bytes, whole.memory.allocated_bytes);
  EXPECT_EQ(baseline.record().memory.foreign_bytes, record.memory.foreign_bytes);
}

TEST(Experiment, TheRecordAddsUpAndAgreesWithThePlan) {
  for (int64_t micro_batches : {1, 3}) {
    TrainingExperiment e = small_experiment("compiled", micro_batches);
    auto backend = cpu_backend(1);
    cost::Ceilings limits = ceilings();
    record::RunRecord run = measure_training(e, *backend, &limits);
    EXPECT_EQ(run.step.busy_ns() + run.step.idle_ns + run.step.host_ns, run.step.wall_ns);
    EXPECT_EQ(run.memory.owned_bytes, run.memory.allocated_bytes);
    EXPECT_EQ(run.parameters, e.config.parameters());

    record::RunRecord planned = planning::plan_step(e, *backend, &limits);
    EXPECT_EQ(planned.executed, run.executed);
    EXPECT_EQ(planned.planned_bytes, run.planned_bytes);
    EXPECT_EQ(planned.launches, run.launches);
    EXPECT_EQ(planned.memory.owned_bytes, run.memory.owned_bytes);
    EXPECT_EQ(planned.model.step(), run.model.step());
    EXPECT_DOUBLE_EQ(planned.predicted_ns, run.predicted_ns);
    int64_t calls = 0, flops = 0;
    for (const record::NodeRecord& node : run.step.nodes) {
      calls += node.calls;
      flops += node.work.flops;
    }
    EXPECT_EQ(calls, run.launches);
    EXPECT_EQ(flops, run.executed.flops);
  }
}

// A step of three micro-batches has three times the model's work of one.
TEST(Experiment, ModelWorkScalesWithMicroBatches) {
  auto backend = cpu_backend(1);
  auto macs = [&](int64_t micro_batches) {
    TrainingExperiment e = small_experiment("baseline", micro_batches);
    return planning::plan_step(e, *backend, nullptr).palm_flops();
  };
  EXPECT_EQ(macs(3), 3 * macs(1));
}

TEST(Experiment, WithoutInstrumentsAllStepsArePlain) {
  TrainingExperiment e = small_experiment("baseline");
  e.instrument = false;
  auto backend = cpu_backend(1);
  record::RunRecord run = measure_training(e, *backend, nullptr);
  EXPECT_EQ(run.plain_wall_ns.size(), 9u);
  EXPECT_EQ(run.predicted_ns, 0);
  EXPECT_EQ(run.step.wall_ns, 0);
  EXPECT_EQ(run.profiling_cost().count, 0);
  EXPECT_EQ(run.clock_ns, 0);
}

TEST(Experiment, RefusesStepsThatAreNone) {
  auto backend = cpu_backend(1);
  TrainingExperiment e = small_experiment("baseline");
  e.steps = 0;
  EXPECT_THROW(measure_training(e, *backend, nullptr), Error);
  e.steps = 1;
  e.warmup_steps = -1;
  EXPECT_THROW(measure_training(e, *backend, nullptr), Error);
}

}  // namespace
}  // namespace ridge::measure
