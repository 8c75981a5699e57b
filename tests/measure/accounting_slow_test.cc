// SPDX-License-Identifier: Apache-2.0
// The accounting of a run of the preset small: kernels fill the step, instrumentation costs little,
// and memory is as predicted. The time that the run takes is not tested.
#include <gtest/gtest.h>

#include <string>

#include "backends/cpu/cpu_backend.h"
#include "measure/whole_run.h"
#include "models/config.h"
#include "train/small_run.h"

namespace ridge::measure {
namespace {

constexpr double kLeastAttributed = 0.98;
constexpr double kMostClockCost = 0.01;
// Tolerance for the resident peak: memory that libraries keep for themselves.
constexpr double kResidentShare = 0.05;
constexpr int64_t kResidentBytes = 64 << 20;

class SmallRun : public testing::TestWithParam<std::string> {};

TEST_P(SmallRun, AccountsForItsTimeAndMemory) {
  const models::Preset& preset = models::preset("small");
  TrainingExperiment experiment;
  experiment.config = preset.config;
  experiment.step.batch_size = preset.batch_size;
  experiment.step.sequence = preset.sequence;
  experiment.selection = passes::Selection(GetParam(), "");
  experiment.warmup_steps = 1;
  experiment.steps = 4;
  backends::cpu::CpuOptions options;
  options.threads = 2;
  auto backend = backends::cpu::make_cpu_backend(options);
  record::RunRecord run = measure_training(experiment, *backend, nullptr);

  EXPECT_GE(static_cast<double>(run.step.busy_ns()),
            kLeastAttributed * static_cast<double>(run.step.wall_ns));
  EXPECT_GT(run.clock_cost(), 0);
  EXPECT_LT(run.clock_cost(), kMostClockCost);
  EXPECT_EQ(run.memory.allocated_bytes, run.memory.owned_bytes);
  if (!run.memory.peak_was_reset) GTEST_SKIP() << "the system does not reset a process's peak";
  int64_t predicted = run.memory.predicted_peak_bytes();
  EXPECT_NEAR(static_cast<double>(run.memory.after.peak_bytes), static_cast<double>(predicted),
              kResidentShare * static_cast<double>(predicted) + kResidentBytes);
}

INSTANTIATE_TEST_SUITE_P(Levels,
                         SmallRun,
                         train::every_level(),
                         train::level_name<SmallRun::ParamType>);

}  // namespace
}  // namespace ridge::measure
