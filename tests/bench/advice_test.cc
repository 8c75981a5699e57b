// SPDX-License-Identifier: Apache-2.0
// Advice: its order, and that its predicted gains are those of the changed step.
#include "bench/advice.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cost/made_up_ceilings.h"
#include "train/small_run.h"

namespace ridge::bench {
namespace {

// A machine with unlimited arithmetic, slow memory and expensive launches, on which saving bytes
// and calls pays.
cost::Ceilings slow_memory() {
  cost::Ceilings c = cost::made_up_ceilings({{1, 0.5, 0.5}, {1 << 30, 0.5, 0.5}}, 1e6);
  c.levels[0].capacity_bytes = int64_t{1} << 34;
  c.arithmetic_flops_per_ns = 1e6;
  c.fused_flops_per_ns = 1e6;
  c.transcendentals_per_ns = 1e6;
  c.launch_ns = 2000;
  return c;
}

measure::TrainingExperiment present(const std::string& level, const std::string& switches = "") {
  measure::TrainingExperiment e;
  e.setting.model = "test";
  e.setting.level = level;
  e.setting.switches = switches;
  e.setting.dtype = "fp32";
  e.config = train::small_config();
  e.step = train::small_step();
  e.selection = passes::Selection(level, switches);
  e.warmup_steps = 1;
  e.steps = 4;
  return e;
}

double predicted_ns(const measure::TrainingExperiment& e,
                    const passes::PassTarget& target,
                    const cost::Ceilings& ceilings) {
  train::TrainingStep step = train::build_step(e.config, e.step, e.selection, ops::table(), target);
  return measure::planned_training(e, step, target, &ceilings).predicted_ns;
}

TEST(Advice, GainsAreThoseOfTheChangedGraphBestFirst) {
  auto backend = train::cpu_backend(1);
  cost::Ceilings ceilings = slow_memory();
  measure::TrainingExperiment e = present("fused");
  std::vector<Advice> advice = advise(e, *backend, ceilings, 50);
  ASSERT_GT(advice.size(), 3u);
  double before = predicted_ns(e, *backend, ceilings), last = 1e9;
  for (const Advice& a : advice) {
    EXPECT_DOUBLE_EQ(a.before_ns, before);
    EXPECT_DOUBLE_EQ(a.after_ns, predicted_ns(a.changed, *backend, ceilings)) << a.title;
    double rate = static_cast<double>(a.changed.step.batch_size) / a.after_ns;
    EXPECT_NEAR(a.time_gain(), rate / (2 / before) - 1, 1e-9) << a.title;
    // Gains in time come first, in order; only gains in memory follow.
    if (a.time_gain() >= 0.01) {
      EXPECT_LE(a.time_gain(), last);
    } else {
      EXPECT_GT(a.memory_gain(), 0);
    }
    last = a.time_gain();
    EXPECT_FALSE(a.command.empty());
    EXPECT_FALSE(a.reason.empty()) << a.title;
  }
}

TEST(Advice, ProposesThePassThatWasTurnedOff) {
  auto backend = train::cpu_backend(1);
  std::vector<Advice> advice =
      advise(present("compiled", "-fuse_rms_norm"), *backend, slow_memory(), 50);
  auto found = std::find_if(advice.begin(), advice.end(),
                            [](const Advice& a) { return a.title == "turn on fuse_rms_norm"; });
  ASSERT_NE(found, advice.end());
  EXPECT_EQ(found->command, "--pass=+fuse_rms_norm");
  EXPECT_TRUE(found->changed.selection.has("fuse_rms_norm"));
  EXPECT_TRUE(found->is_same_training);
  EXPECT_LT(found->after_bytes, found->before_bytes);
}

TEST(Advice, NeverProposesWhatCannotBe) {
  auto backend = train::cpu_backend(1);
  for (const char* level : {"baseline", "compiled"})
    for (const Advice& a : advise(present(level), *backend, slow_memory(), 50)) {
      EXPECT_EQ(a.title.find("off expand"), std::string::npos);
      EXPECT_EQ(a.title.find("off legalize"), std::string::npos);
      EXPECT_NE(a.title, std::string("train at level ") + level);
      EXPECT_GE(a.changed.step.batch_size, 1);
      // A smaller batch alone always saves memory, so it must gain time to be proposed.
      EXPECT_TRUE(a.changed.step.batch_size == 2 || a.time_gain() >= 0.01) << a.title;
    }
}

TEST(Advice, LeavesOutWhatDoesNotFitTheMachine) {
  auto backend = train::cpu_backend(1);
  cost::Ceilings ceilings = slow_memory();
  measure::TrainingExperiment e = present("compiled");
  auto doubles = [&] {
    std::vector<Advice> advice = advise(e, *backend, ceilings, 50);
    return std::count_if(advice.begin(), advice.end(),
                         [](const Advice& a) { return a.changed.step.batch_size == 4; });
  };
  EXPECT_EQ(doubles(), 1);
  train::TrainingStep step =
      train::build_step(e.config, e.step, e.selection, ops::table(), *backend);
  ceilings.machine.memory_bytes =
      measure::planned_training(e, step, *backend, &ceilings).memory.owned_bytes + 1;
  EXPECT_EQ(doubles(), 0);
}

TEST(Advice, KeepsToTheNumberAskedForAndTellsOfProgress) {
  auto backend = train::cpu_backend(1);
  size_t last = 0, total = 0;
  std::vector<Advice> advice =
      advise(present("baseline"), *backend, slow_memory(), 2, [&](size_t done, size_t of) {
        EXPECT_EQ(done, last + 1);
        last = done;
        total = of;
      });
  EXPECT_EQ(advice.size(), 2u);
  EXPECT_EQ(last, total);
}

// Proposed changes can be run, and they keep the losses if they claim to.
TEST(Advice, RunsAsProposed) {
  auto backend = train::cpu_backend(1);
  cost::Ceilings ceilings = slow_memory();
  measure::TrainingExperiment e = present("fused");
  record::RunRecord before = measure::measure_training(e, *backend, &ceilings);
  for (const Advice& a : advise(e, *backend, ceilings, 4)) {
    record::RunRecord after = measure::measure_training(a.changed, *backend, &ceilings);
    EXPECT_DOUBLE_EQ(after.predicted_ns, a.after_ns) << a.title;
    EXPECT_EQ(after.memory.owned_bytes, a.after_peak_bytes) << a.title;
    EXPECT_TRUE(!a.is_same_training || record::loss_difference(before, after) < 5e-5) << a.title;
  }
}

}  // namespace
}  // namespace ridge::bench
