// SPDX-License-Identifier: Apache-2.0
// Figures that follow from a run's counts and times, small enough for mental arithmetic.
#include "record/run_record.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ridge::record {
namespace {

TEST(Setting, SaysWhatDiffersFromATrainingRunInFp32) {
  Setting s;
  s.model = "small";
  s.level = "compiled";
  s.batch_size = 8;
  s.sequence = 128;
  EXPECT_EQ(s.str(), "small compiled 8x128");
  s.dtype = "fp32";
  EXPECT_EQ(s.str(), "small compiled 8x128");
  s.micro_batches = 2;
  s.dtype = "bf16";
  s.switches = "+recompute";
  s.task = "prefill";
  EXPECT_EQ(s.str(), "small prefill compiled +recompute 8x128 x2 micro-batches bf16");
  s.ranks = 1;
  EXPECT_EQ(s.str(), "small prefill compiled +recompute 8x128 x2 micro-batches bf16");
  s.ranks = 2;
  EXPECT_EQ(s.str(), "small prefill compiled +recompute 8x128 x2 micro-batches on 2 ranks bf16");
}

TEST(Setting, CountsTheTokensOfAStep) {
  Setting s;
  s.batch_size = 8;
  s.sequence = 128;
  s.micro_batches = 3;
  EXPECT_EQ(s.samples(), 24);
  EXPECT_EQ(s.tokens(), 24 * 128);
  s.task = "prefill";
  EXPECT_EQ(s.tokens(), 24 * 128);
  s.task = "decode";
  EXPECT_EQ(s.tokens(), 24);
}

TEST(RunRecord, RatesAreThoseOfTheMedianStep) {
  RunRecord run;
  EXPECT_EQ(run.step_ns(), 0);
  EXPECT_EQ(run.tokens_per_s(), 0);
  run.setting.batch_size = 4;
  run.setting.sequence = 10;
  run.predicted_ns = 4e9;
  EXPECT_EQ(run.step_ns(), 4e9);  // nothing was run
  EXPECT_EQ(run.samples_per_s(), 1);
  run.plain_wall_ns = {9e9, 2e9, 1e9};
  EXPECT_EQ(run.step_ns(), 2e9);
  EXPECT_EQ(run.samples_per_s(), 2);
  EXPECT_EQ(run.tokens_per_s(), 20);
}

TEST(RunRecord, UtilizationIsAShareOfTheReference) {
  RunRecord run;
  run.plain_wall_ns = {2e9};
  run.model.forward = {10, 25, 0};
  run.model.backward = {20, 45, 0};
  run.model.optimizer = {0, 1000, 0};
  EXPECT_EQ(run.palm_flops(), 60);
  EXPECT_EQ(run.palm_flops_per_s(), 30);
  EXPECT_DOUBLE_EQ(run.mfu({.per_ns = 100e-9}), 0.3);
  EXPECT_EQ(run.mfu({}), 0);
  run.weight_bytes = 6'000'000'000;
  run.cache_bytes = 2'000'000'000;
  EXPECT_DOUBLE_EQ(run.mbu({.per_ns = 8}), 0.5);
  EXPECT_EQ(run.mbu({}), 0);
  run.plain_wall_ns.clear();
  EXPECT_EQ(run.mfu({.per_ns = 1}), 0);
  EXPECT_EQ(run.mbu({.per_ns = 1}), 0);
}

// A run that reads `bytes` in a time that is `share` of what memory needs at 10 bytes/ns.
RunRecord reads(int64_t bytes, double share) {
  RunRecord run;
  run.weight_bytes = bytes / 2;
  run.cache_bytes = bytes - bytes / 2;
  run.plain_wall_ns = {static_cast<double>(bytes) / 10 / share};
  return run;
}

TEST(RunRecord, AShareOfMemoryOverOneHasAReason) {
  constexpr int64_t kCache = int64_t{32} << 20;
  cost::Ceilings c;
  c.measured_at = "now";
  c.levels = {{"L2", 1 << 20, 50, 40, 0}, {"L3", kCache, 40, 30, 0}, {"memory", 0, 10, 8, 0}};
  EXPECT_EQ(reads(kCache, 0.5).mbu_reason(c), "");
  EXPECT_EQ(reads(kCache, 1).mbu_reason(c), "");
  EXPECT_EQ(reads(0, 1).mbu_reason(c), "");
  for (int64_t bytes : {int64_t{1000}, kCache})
    EXPECT_EQ(reads(bytes, 1.538).mbu_reason(c),
              "the weights lie in the last-level cache (32.0 MiB)");
  // At twice the cache's size, at least half comes from memory.
  EXPECT_EQ(reads(2 * kCache, 1.9).mbu_reason(c),
            "the last-level cache (32.0 MiB) holds part of the weights");
  const std::string remeasure = "ridge machine --remeasure";
  EXPECT_TRUE(reads(2 * kCache, 2.1).mbu_reason(c).ends_with(remeasure));
  EXPECT_TRUE(reads(100 * kCache, 1.2).mbu_reason(c).ends_with(remeasure));
  c.levels.erase(c.levels.begin(), c.levels.end() - 1);  // no cache is known
  EXPECT_TRUE(reads(1000, 1.2).mbu_reason(c).ends_with(remeasure));
  c.measured_at.clear();
  EXPECT_EQ(reads(1000, 1.2).mbu_reason(c), "the bandwidth of memory is assumed too low");
}

TEST(RunRecord, ProfilingCostIsThatOfEachStepOverItsNeighbour) {
  RunRecord run;
  EXPECT_EQ(run.profiling_cost().count, 0);
  EXPECT_EQ(run.profiling_cost_of_run(), 0);
  run.step.wall_samples_ns = {110, 250, 5, 390};
  run.paired_wall_ns = {100, 200, 0, 300, 7};  // a plain step without a time is left out
  EXPECT_EQ(run.profiling_cost().count, 3);
  EXPECT_NEAR(run.profiling_cost().low, 0.1, 1e-12);
  EXPECT_NEAR(run.profiling_cost().median, 0.25, 1e-12);
  EXPECT_NEAR(run.profiling_cost().high, 0.3, 1e-12);
  run.plain_wall_ns.assign(12, 100);  // 4 of 16 steps are instrumented
  EXPECT_NEAR(run.profiling_cost_of_run(), 0.25 / 4, 1e-12);
}

TEST(RunRecord, ClockCostIsAShareOfAPlainStep) {
  RunRecord run;
  run.clock_ns = 50;
  EXPECT_EQ(run.clock_cost(), 0);
  run.plain_wall_ns = {1000, 400, 5000};
  EXPECT_DOUBLE_EQ(run.clock_cost(), 0.05);
}

TEST(RunRecord, MeanLoss) {
  RunRecord run;
  EXPECT_EQ(run.mean_loss(), 0);
  run.losses = {1, 2, 6};
  EXPECT_DOUBLE_EQ(run.mean_loss(), 3);
}

TEST(ModuleRecord, RatesFollowFromItsCounts) {
  ModuleRecord module;
  EXPECT_EQ(module.intensity(), 0);
  EXPECT_EQ(module.flops_per_ns(), 0);
  module.work = {30, 100, 0};
  module.planned_bytes = 1000;
  module.compulsory_bytes = 40;
  module.time_ns = 25;
  EXPECT_DOUBLE_EQ(module.intensity(), 2.5);
  EXPECT_DOUBLE_EQ(module.flops_per_ns(), 4);
}

TEST(Differences, AreTheLargestOfAnyPlace) {
  RunRecord a, b;
  a.logits = {1, 2, -3};
  b.logits = {1, 2.5, -3.25};
  EXPECT_EQ(logits_difference(a, b), 0.5);
  EXPECT_EQ(logits_difference(b, a), 0.5);
  b.logits.pop_back();
  EXPECT_EQ(logits_difference(a, b), std::numeric_limits<double>::infinity());
  a.losses = {7, 6, 5};
  b.losses = {7, 6.25};
  EXPECT_EQ(loss_difference(a, b), 0.25);
  EXPECT_EQ(loss_difference(a, a), 0);
}

TEST(Differences, OfANumberAndNoneAreNone) {
  RunRecord a, b;
  a.logits = {1, 2, 3};
  b.logits = {1, NAN, 9};
  EXPECT_TRUE(std::isnan(logits_difference(a, b)));
  a.losses = {1, 2, 3};
  b.losses = {NAN, 2, 9};
  EXPECT_TRUE(std::isnan(loss_difference(a, b)));
}

TEST(Differences, AreTightOnlyBetweenRunsInFp32) {
  RunRecord wide, narrow;
  wide.setting.dtype = "fp32";
  narrow.setting.dtype = "bf16";
  EXPECT_EQ(loss_tolerance(wide, wide), 5e-5);
  EXPECT_EQ(loss_tolerance(wide, narrow), 0.02);
  EXPECT_EQ(loss_tolerance(narrow, wide), 0.02);
  EXPECT_EQ(loss_tolerance(narrow, narrow), 0.02);
}

}  // namespace
}  // namespace ridge::record
