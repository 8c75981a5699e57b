// SPDX-License-Identifier: Apache-2.0
// The warnings about a run's times, and comparisons between the runs of a lab.
#include "record/lab_record.h"

#include <gtest/gtest.h>

namespace ridge::record {
namespace {

RunRecord steady(double plain_ns, double instrumented_ns) {
  RunRecord run;
  run.setting.model = "small";
  run.plain_wall_ns.assign(8, plain_ns);
  run.step.wall_ns = instrumented_ns;
  return run;
}

std::string warnings(const RunRecord& run) {
  LabRecord lab;
  check_consistency(run, lab);
  std::string text;
  for (const std::string& each : lab.warnings) text += each + "\n";
  return text;
}

TEST(ConsistencyChecks, NoneOfASteadyRun) {
  EXPECT_EQ(warnings(steady(1e6, 1.2e6)), "");
  EXPECT_EQ(warnings(steady(1e6, 0)), "");  // nothing was instrumented
}

TEST(ConsistencyChecks, TablesOfAnotherSpeedThanThePlainSteps) {
  EXPECT_NE(warnings(steady(80e6, 531e6)).find("took 6.6 times as long"), std::string::npos);
  EXPECT_NE(warnings(steady(100e6, 40e6)).find("took 0.4 times as long"), std::string::npos);
}

// A GPU's records of launches take the host's time.
TEST(ConsistencyChecks, NoneOfTheInstrumentsOwnTime) {
  EXPECT_EQ(warnings(steady(160e3, 219e3)), "");
  EXPECT_NE(warnings(steady(160e3, 300e3)), "");
  RunRecord run = steady(160e3, 300e3);
  run.launches = 40;
  EXPECT_NE(warnings(run), "");
  run.setting.device = "cuda";
  EXPECT_EQ(warnings(run), "");
  run.step.wall_ns = 390e3;
  EXPECT_NE(warnings(run).find("took 2.4 times as long"), std::string::npos);
}

TEST(ConsistencyChecks, StepsThatVary) {
  RunRecord run = steady(1e6, 1e6);
  for (size_t i = 0; i < run.plain_wall_ns.size(); ++i) run.plain_wall_ns[i] *= 1 + 0.2 * (i % 3);
  EXPECT_NE(warnings(run).find("vary from 1.00 ms to 1.40 ms"), std::string::npos);
}

TEST(ConsistencyChecks, MoreThanThePeakAndMoreThanTheWall) {
  RunRecord run = steady(1e6, 1e6);
  run.model.forward = {60'000'000, 120'000'000, 0};  // 120 FLOPs per ns
  run.step.kernel_ns = 1'100'000;
  LabRecord lab;
  check_consistency(run, lab);
  ASSERT_EQ(lab.warnings.size(), 1u);  // without ceilings no peak is known
  EXPECT_NE(lab.warnings[0].find("longer than its wall time"), std::string::npos);
  run.step.overlapped_ns = 100'000;
  lab.warnings.clear();
  lab.ceilings.emplace();
  lab.ceilings->products.resize(1);
  lab.ceilings->products[0].peak_flops_per_ns = 120;
  check_consistency(run, lab);
  EXPECT_TRUE(lab.warnings.empty()) << lab.warnings[0];
  lab.ceilings->measured_at = "2026-01-02T03:04:05Z";
  lab.ceilings->products[0].peak_flops_per_ns = 100;
  check_consistency(run, lab);
  ASSERT_EQ(lab.warnings.size(), 1u);
  EXPECT_NE(lab.warnings[0].find("120% of the measured peak"), std::string::npos);
}

TEST(ConsistencyChecks, TheInstrumentsCaveat) {
  RunRecord run = steady(1e6, 1e6);
  run.step.caveat = "kernels are timed by events";
  EXPECT_NE(warnings(run).find("kernels are timed by events"), std::string::npos);
}

RunRecord run_of(const std::string& task, int64_t batch, int64_t length, double ns) {
  RunRecord run;
  run.setting.task = task;
  run.setting.model = "small";
  run.setting.batch_size = batch;
  run.setting.sequence = length;
  run.plain_wall_ns.assign(8, ns);
  return run;
}

// A ladder is the runs of one piece of work; its first run is what the others are compared with.
TEST(Ladders, HoldTheRunsOfTheSameWork) {
  LabRecord lab;
  EXPECT_TRUE(ladders(lab).empty());
  lab.runs = {run_of("train", 8, 64, 100), run_of("train", 8, 32, 90), run_of("train", 8, 64, 50),
              run_of("decode", 8, 64, 7),  run_of("train", 4, 64, 60), run_of("train", 8, 64, 25),
              run_of("train", 8, 64, 20),  run_of("train", 8, 64, 10)};
  lab.runs[6].setting.micro_batches = 2;
  lab.runs[7].setting.model = "large";
  lab.runs[5].setting.level = "compiled";
  EXPECT_EQ(ladders(lab), (std::vector<std::vector<size_t>>{{0, 2, 5}, {1}, {3}, {4}, {6}, {7}}));
  EXPECT_EQ(&reference_run(lab, lab.runs[5]), &lab.runs[0]);
  EXPECT_EQ(&reference_run(lab, lab.runs[6]), &lab.runs[6]);
  EXPECT_EQ(speed_up(lab, lab.runs[5]), 4);
  EXPECT_EQ(speed_up(lab, lab.runs[1]), 1);
  const RunRecord other = run_of("train", 1, 1, 0);
  EXPECT_EQ(&reference_run(lab, other), &other);
  EXPECT_EQ(speed_up(lab, other), 0);
}

TEST(Trial, ComparesTimesPerToken) {
  TrialRecord trial;
  EXPECT_EQ(trial.measured_gain(), 0);
  trial.before = run_of("train", 4, 64, 400);
  trial.after = run_of("train", 8, 64, 640);
  EXPECT_DOUBLE_EQ(trial.measured_gain(), 0.25);
  EXPECT_TRUE(trial.is_clear());
  trial.after.plain_wall_ns[3] = 790;
  EXPECT_TRUE(trial.is_clear());
  EXPECT_EQ(trial.verdict(), "clear of noise");
  trial.after.plain_wall_ns[3] = 810;
  EXPECT_FALSE(trial.is_clear());
  EXPECT_EQ(trial.verdict(), "within noise");
  // Half as long in half the time.
  trial.after = run_of("train", 4, 32, 200);
  EXPECT_DOUBLE_EQ(trial.measured_gain(), 0);
  // Six steps can be clear of noise, five cannot, however far they are.
  trial.after = run_of("train", 4, 64, 1);
  trial.before.plain_wall_ns.resize(6);
  EXPECT_EQ(trial.verdict(), "clear of noise");
  trial.before.plain_wall_ns.resize(5);
  EXPECT_FALSE(trial.is_clear());
  EXPECT_EQ(trial.verdict(), "too few steps");
}

TEST(Conventions, NameThePeakOnlyIfThereIsOne) {
  LabRecord lab;
  EXPECT_EQ(mfu_convention(lab), kMfuConvention);
  EXPECT_EQ(mbu_convention(lab), kMbuConvention);
  lab.runs = {run_of("train", 8, 64, 100)};
  lab.runs[0].setting.dtype = "fp32";
  EXPECT_EQ(mfu_convention(lab), kMfuConvention);
  EXPECT_EQ(mfu_reference(lab, lab.runs[0].setting).per_ns, 0);
  EXPECT_EQ(mbu_reference(lab).per_ns, 0);
  lab.ceilings.emplace();
  lab.ceilings->measured_at = "2026-01-02T03:04:05Z";
  lab.ceilings->products.resize(1);
  lab.ceilings->products[0].peak_flops_per_ns = 100;
  lab.ceilings->levels = {{"memory", 1 << 30, 25, 20, 0}};
  EXPECT_EQ(mfu_convention(lab), std::string(kMfuConvention) + ", of 100 GFLOP/s fp32, measured");
  EXPECT_EQ(mbu_convention(lab), std::string(kMbuConvention) + ", of 25.0 GB/s, measured");
  lab.runs.clear();
  EXPECT_EQ(mfu_convention(lab), kMfuConvention);
}

TEST(LaunchRate, IsThatOfAnyRun) {
  LabRecord lab;
  lab.runs.resize(2);
  EXPECT_FALSE(lab.has_launch_rate());
  lab.runs[1].launch_rate_samples = {0.5};
  EXPECT_TRUE(lab.has_launch_rate());
}

// Ranks that share each copy of the model have their peaks together.
TEST(Conventions, CountTheRanksThatShareAModel) {
  LabRecord lab;
  lab.runs = {run_of("train", 8, 64, 100)};
  lab.ceilings.emplace();
  lab.ceilings->products.resize(1);
  lab.ceilings->products[0].peak_flops_per_ns = 100;
  const auto rate = [&](const char* switches) {
    lab.runs[0].setting.switches = switches;
    return mfu_reference(lab, lab.runs[0].setting).per_ns;
  };
  EXPECT_EQ(rate(""), 100);
  EXPECT_EQ(rate("-tune_gemm"), 100);
  EXPECT_EQ(rate("+train_tensor_parallel=4"), 400);
  EXPECT_EQ(rate("+train_tensor_parallel=2,+shard"), 200);
  EXPECT_EQ(rate("+train_tensor_parallel=2,+train_tensor_parallel=8"), 800);
  EXPECT_EQ(rate("+train_tensor_parallel="), 100);
}

TEST(DetailedRuns, AreThoseOfTheFirstSize) {
  LabRecord lab;
  lab.runs = {run_of("train", 8, 64, 1), run_of("train", 8, 64, 2), run_of("train", 4, 64, 3),
              run_of("train", 8, 32, 4), run_of("train", 8, 64, 5)};
  EXPECT_TRUE(detailed_at_first_point(lab).empty());
  lab.detailed = {1, 2, 3, 4};
  EXPECT_EQ(detailed_at_first_point(lab),
            (std::vector<const RunRecord*>{&lab.runs[1], &lab.runs[4]}));
}

TEST(Losses, AgreeWithinTheirTolerance) {
  RunRecord a = run_of("train", 8, 64, 1), b = a;
  a.losses = {4, 3}, b.losses = {4, 3};
  EXPECT_TRUE(losses_agree(a, b));
  b.losses = {4, 5};
  EXPECT_FALSE(losses_agree(a, b));
}

TEST(MbuReason, NeedsCeilings) {
  const LabRecord lab;
  EXPECT_EQ(mbu_reason(lab, run_of("decode", 8, 64, 1)), "");
}

}  // namespace
}  // namespace ridge::record
