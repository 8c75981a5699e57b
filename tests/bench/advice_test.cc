// SPDX-License-Identifier: Apache-2.0
// Advice: its order, and that its predicted gains are those of the changed step.
#include "bench/advice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "base/openmp_threads.h"
#include "bench/changes.h"
#include "cost/made_up_ceilings.h"
#include "measure/whole_run.h"
#include "planning/step_plan.h"
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
  return planning::plan_step(e, target, &ceilings).predicted_ns;
}

// More than there is, and no limit of time: the tests run next to others.
AdviceSearch all_of(size_t most = 50) { return {.most = most, .seconds = 600}; }

TEST(Advice, GainsAreThoseOfTheChangedGraphBestFirst) {
  auto backend = train::cpu_backend(1);
  cost::Ceilings ceilings = slow_memory();
  measure::TrainingExperiment e = present("fused");
  std::vector<Advice> advice = advise(e, *backend, ceilings, all_of());
  ASSERT_GT(advice.size(), 3u);
  double before = predicted_ns(e, *backend, ceilings), last = 1e9;
  for (const Advice& a : advice) {
    EXPECT_DOUBLE_EQ(a.before_ns, before);
    EXPECT_DOUBLE_EQ(a.after_ns, predicted_ns(a.changed, *backend, ceilings)) << a.title;
    const double tokens = static_cast<double>(a.changed.step.batch_size * a.changed.step.sequence);
    EXPECT_NEAR(a.time_gain(), tokens / a.after_ns / (2 * 16 / before) - 1, 1e-9) << a.title;
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
      advise(present("compiled", "-fuse_rms_norm"), *backend, slow_memory(), all_of());
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
    for (const Advice& a : advise(present(level), *backend, slow_memory(), all_of())) {
      EXPECT_EQ(a.title.find("off expand"), std::string::npos);
      EXPECT_EQ(a.title.find("off legalize"), std::string::npos);
      EXPECT_NE(a.title, std::string("train at level ") + level);
      EXPECT_GE(a.changed.step.batch_size, 1);
      // Fewer tokens always save memory, so they must gain time to be proposed.
      EXPECT_TRUE(a.after_tokens == a.before_tokens || a.time_gain() >= 0.01) << a.title;
    }
}

TEST(Advice, LeavesOutWhatDoesNotFitTheMachine) {
  auto backend = train::cpu_backend(1);
  cost::Ceilings ceilings = slow_memory();
  measure::TrainingExperiment e = present("compiled");
  auto larger = [&] {
    std::vector<Advice> advice = advise(e, *backend, ceilings, all_of());
    return std::count_if(advice.begin(), advice.end(),
                         [](const Advice& a) { return a.changed.step.batch_size > 2; });
  };
  EXPECT_GT(larger(), 0);
  ceilings.machine.memory_bytes =
      planning::plan_step(e, *backend, &ceilings).memory.owned_bytes + 1;
  EXPECT_EQ(larger(), 0);
}

TEST(Advice, KeepsToTheNumberAskedForAndTellsOfProgress) {
  auto backend = train::cpu_backend(1);
  size_t last = 0, total = 0;
  AdviceSearch search = all_of(2);
  search.listener = [&](size_t done, size_t of) {
    EXPECT_EQ(done, last + 1);
    EXPECT_GE(of, total);
    last = done;
    total = of;
  };
  std::vector<Advice> advice = advise(present("baseline"), *backend, slow_memory(), search);
  EXPECT_EQ(advice.size(), 2u);
  EXPECT_EQ(last, total);
}

// Proposed changes can be run, and they keep the losses if they claim to.
TEST(Advice, RunsAsProposed) {
  auto backend = train::cpu_backend(1);
  cost::Ceilings ceilings = slow_memory();
  measure::TrainingExperiment e = present("fused");
  record::RunRecord before = measure::measure_training(e, *backend, &ceilings);
  for (const Advice& a : advise(e, *backend, ceilings, all_of(4))) {
    record::RunRecord after = measure::measure_training(a.changed, *backend, &ceilings);
    EXPECT_DOUBLE_EQ(after.predicted_ns, a.after_ns) << a.title;
    EXPECT_EQ(after.memory.owned_bytes, a.after_peak_bytes) << a.title;
    EXPECT_TRUE(!a.is_same_training || record::loss_difference(before, after) < 5e-5) << a.title;
  }
}

// All kinds of changes are there, and each can be made.
TEST(Changes, OfEverySetting) {
  auto backend = train::cpu_backend(1);
  measure::TrainingExperiment e = present("fused");
  e.config.layers = 8;
  e.setting.threads = 2;
  e.setting.batch_size = e.step.batch_size = 4;
  e.step.sequence = e.setting.sequence = 32;
  const std::vector<int> threads{1, 2, 4};
  std::map<std::string, std::set<std::string>> values;
  for (const Change& each : possible_changes(e, *backend, threads)) {
    values[each.option].insert(each.value);
    measure::TrainingExperiment changed = e;
    each.make(changed);
    EXPECT_FALSE(each.title.empty());
  }
  EXPECT_EQ(values["--level"], (std::set<std::string>{"baseline", "kernels", "compiled"}));
  EXPECT_EQ(values["--batch-size"], (std::set<std::string>{"1", "2", "8", "16", "32"}));
  EXPECT_EQ(values["--seq-len"], (std::set<std::string>{"16"})) << "the context is 16";
  EXPECT_EQ(values["--threads"], (std::set<std::string>{"1", "4"}));
  EXPECT_EQ(values["--dtype"], (std::set<std::string>{"bf16"}));
  for (const char* item : {"+recompute", "+recompute=2", "+recompute=4", "+recompute=6",
                           "-flash_attention", "+fuse_glu"})
    EXPECT_TRUE(values["--pass"].contains(item)) << item;
  for (const char* item : {"-expand", "-legalize", "+quantize_activations", "+store_bf16"})
    EXPECT_FALSE(values["--pass"].contains(item)) << item;
}

TEST(Changes, OptionsOfTwoAreOneCommand) {
  const auto change = [](const char* option, const char* value) {
    Change made;
    made.option = option;
    made.value = value;
    return made;
  };
  const Change level = change("--level", "kernels"), on = change("--pass", "+recompute=2"),
               off = change("--pass", "-fuse_glu");
  EXPECT_EQ(options_text(std::vector{&on, &level}), "--level kernels --pass=+recompute=2");
  EXPECT_EQ(options_text(std::vector{&on, &off}), "--pass=+recompute=2,-fuse_glu");
}

// On this machine bf16 halves the bytes, and a larger batch spreads launches over more tokens.
TEST(Advice, PairsGainMoreThanEachOfTheTwo) {
  auto backend = train::cpu_backend(1);
  const std::vector<Advice> advice =
      advise(present("compiled"), *backend, slow_memory(), all_of(200));
  std::map<std::string, double> gains;
  for (const Advice& a : advice) gains[a.command] = a.time_gain();
  size_t pairs = 0;
  std::set<std::string> titles;
  for (const Advice& a : advice) {
    EXPECT_TRUE(titles.insert(a.title).second) << a.title;
    const size_t space = a.title.find(" and train ");
    if (space == std::string::npos || a.time_gain() < 0.01) continue;
    ++pairs;
    // Each of its options alone, if that is the best value of its setting.
    for (const auto& [command, gain] : gains) {
      const bool is_part =
          a.command.starts_with(command + " ") || a.command.ends_with(" " + command);
      if (!is_part) continue;
      EXPECT_GT(a.time_gain(), gain) << a.command << " next to " << command;
    }
  }
  EXPECT_GT(pairs, 0u);
}

TEST(Advice, IsSureOfItsGainsOnlyAsFarAsPredictionsAre) {
  auto backend = train::cpu_backend(1);
  AdviceSearch exact = all_of(), rough = all_of();
  rough.gain_error = 0.3;
  std::map<std::string, double> sure;
  for (const Advice& a : advise(present("fused"), *backend, slow_memory(), exact)) {
    EXPECT_EQ(a.confidence, 1);
    sure[a.command] = a.time_gain();
  }
  size_t fast = 0;
  for (const Advice& a : advise(present("fused"), *backend, slow_memory(), rough)) {
    if (a.time_gain() < 0.01) {
      EXPECT_EQ(a.confidence, 1) << "memory is counted";
      continue;
    }
    ++fast;
    EXPECT_GE(a.confidence, kLeastConfidence) << a.command;
    EXPECT_LT(a.confidence, 1) << a.command;
    EXPECT_EQ(a.record().confidence, a.confidence);
  }
  EXPECT_GT(fast, 0u);
  EXPECT_LT(fast, sure.size());
}

TEST(Advice, TriesOtherThreadsWithTheirCeilings) {
  auto backend = train::cpu_backend(1);
  measure::TrainingExperiment e = present("compiled");
  e.setting.threads = 1;
  cost::Ceilings fast = slow_memory();
  fast.bandwidth.back().copy_bytes_per_ns = fast.bandwidth.back().read_bytes_per_ns = 50;
  fast.bandwidth.front() = {1, 50, 50};
  fast.machine.threads = 2;
  const OpenmpThreads one(1);
  AdviceSearch search = all_of(1);
  search.threads = {2};
  EXPECT_EQ(advise(e, *backend, slow_memory(), search)[0].command.find("--threads"),
            std::string::npos)
      << "their ceilings are unknown";
  search.ceilings_of = [&](const measure::TrainingExperiment& changed) {
    EXPECT_EQ(changed.setting.threads, 2);
    return std::make_shared<const cost::Ceilings>(fast);
  };
  const Advice best = advise(e, *backend, slow_memory(), search)[0];
  EXPECT_NE(best.command.find("--threads 2"), std::string::npos) << best.command;
  EXPECT_EQ(best.changed.setting.threads, 2);
  EXPECT_EQ(best.ceilings->machine.threads, 2);
  // The workspace is that of these threads.
  auto owned_bytes = [&] {
    return planning::plan_step(best.changed, *backend, &fast).memory.owned_bytes;
  };
  const int64_t of_one = owned_bytes();
  const OpenmpThreads two(2);
  ASSERT_NE(owned_bytes(), of_one);
  EXPECT_EQ(best.after_peak_bytes, owned_bytes());
}

TEST(Advice, EndsWhenItsTimeIsOver) {
  auto backend = train::cpu_backend(1);
  AdviceSearch search = all_of();
  search.seconds = 0;
  search.listener = [](size_t, size_t) { ADD_FAILURE() << "nothing is costed any more"; };
  EXPECT_TRUE(advise(present("fused"), *backend, slow_memory(), search).empty());
}

}  // namespace
}  // namespace ridge::bench
