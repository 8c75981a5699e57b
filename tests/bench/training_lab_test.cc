// SPDX-License-Identifier: Apache-2.0
// A lab refuses options before anything runs, and keeps ceilings that its runs have corrected.
#include "bench/training_lab.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "cost/made_up_ceilings.h"
#include "files/own_cache.h"

namespace ridge::bench {
namespace {

TrainingLabOptions tiny_lab() {
  TrainingLabOptions options;
  options.model.preset = "tiny";
  options.machine.device = "cpu";
  options.levels = "baseline,fused";
  options.lengths = "16";
  options.batch_sizes = "1";
  return options;
}

TEST(TrainingLab, TakesItsOptions) {
  const TrainingLabOptions options = tiny_lab();
  EXPECT_FALSE(TrainingLab(options).has_tf32());
}

TEST(TrainingLab, RefusesOptionsByTheirNames) {
  const auto expect = [](void (*change)(TrainingLabOptions&), const std::string& reason) {
    TrainingLabOptions options = tiny_lab();
    change(options);
    try {
      const TrainingLab lab(options);
      ADD_FAILURE() << reason;
    } catch (const Error& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with(reason)) << error.what();
    }
  };
  expect([](auto& o) { o.trials = 11; }, "[try] expected 0 to 10");
  expect([](auto& o) { o.steps = 1; }, "[steps] expected 2 to");
  expect([](auto& o) { o.levels = "fast"; }, "[level] expected all or some of baseline");
  expect([](auto& o) { o.profile_levels = "compiled"; }, "[profile-level] expected one of");
  expect([](auto& o) { o.profile_points = "last"; }, "[profile-points] expected first or all");
  expect([](auto& o) { o.batch_sizes = "0"; }, "[batch-size] expected numbers");
  expect([](auto& o) { o.level.dtype = "fp8"; }, "[dtype] expected fp32");
  expect([](auto& o) { o.level.switches = "+shard"; }, "[pass]");
  expect([](auto& o) { o.machine.isa = "sse"; }, "[isa]");
}

// The cache gets ceilings that a run has corrected, and no others.
class KeptCeilings : public testing::Test {
 protected:
  static cost::Ceilings gemms_of(double flops_per_ns) {
    cost::Ceilings c = cost::made_up_ceilings({{1, 1e6, 1e6}, {1 << 30, 1e6, 1e6}}, flops_per_ns);
    c.arithmetic_flops_per_ns = c.fused_flops_per_ns = c.transcendentals_per_ns = 1e6;
    c.measured_at = "2026-01-02T03:04:05Z";
    return c;
  }
  // A lab with ceilings of this rate, which are measured again as a million FLOPs/ns.
  record::LabRecord run(double flops_per_ns) {
    TrainingLabOptions options = tiny_lab();
    options.levels = "baseline";
    options.machine.threads = 1;
    options.steps = 2;
    options.warmup = 0;
    options.no_advice = true;
    record::LabRecord lab;
    lab.ceilings = gemms_of(flops_per_ns);
    const auto ignore = [] {};
    TrainingLab(options).run({.remeasure = [] { return gemms_of(1e6); },
                              .note = [](const std::string& note) { ADD_FAILURE() << note; },
                              .is_stopped = [] { return false; },
                              .tick = [](const LabWork&, const std::string&) {},
                              .measured = ignore,
                              .advised = ignore,
                              .tried = ignore},
                             lab);
    return lab;
  }
  static int64_t said(const record::LabRecord& lab) {
    return std::ranges::count_if(lab.warnings, [](const std::string& warning) {
      return warning.find("were measured again") != std::string::npos;
    });
  }
  std::filesystem::path kept() const { return measure::ceilings_path(gemms_of(1).machine); }

 private:
  files::OwnCache cache_;
};

TEST_F(KeptCeilings, AreThoseThatWereMeasuredAgain) {
  const record::LabRecord held = run(1e6);
  ASSERT_EQ(held.runs.size(), 1u);
  EXPECT_EQ(held.runs[0].losses.size(), 2u);
  EXPECT_EQ(said(held), 0);
  EXPECT_FALSE(std::filesystem::exists(kept()));
  const record::LabRecord beaten = run(1e-6);
  EXPECT_EQ(said(beaten), 1);
  EXPECT_EQ(beaten.ceilings->peak_flops_per_ns(DType::kF32), 1e6);
  EXPECT_EQ(
      cost::ceilings_from_json(files::contents(kept()), "kept").peak_flops_per_ns(DType::kF32),
      1e6);
}

// A lab of two levels and batch sizes of which a listener hears, on ceilings that nothing beats.
class ListenedLab : public testing::Test {
 protected:
  ListenedLab() {
    options_ = tiny_lab();
    options_.batch_sizes = "1,2";
    options_.machine.threads = 1;
    options_.steps = 3;
    options_.warmup = 1;
    options_.no_advice = true;
    cost::Ceilings c = cost::made_up_ceilings({{1, 1e6, 1e6}, {1 << 30, 1e6, 1e6}}, 1e6);
    c.arithmetic_flops_per_ns = c.fused_flops_per_ns = c.transcendentals_per_ns = 1e6;
    c.measured_at = "2026-01-02T03:04:05Z";
    lab_.ceilings = c;
  }
  void run() {
    TrainingLab(options_).run({.remeasure = [this] { return *lab_.ceilings; },
                               .note = [](const std::string&) {},
                               .is_stopped = [this] { return ticks_ >= most_ticks_; },
                               .tick =
                                   [this](const LabWork& work, const std::string& note) {
                                     ++ticks_;
                                     works_.push_back(std::string(work.name));
                                     totals_.push_back(work.total);
                                     notes_.push_back(note);
                                   },
                               .measured = [this] { works_.emplace_back("measured"); },
                               .advised = [this] { works_.emplace_back("advised"); },
                               .tried = [this] { works_.emplace_back("tried"); }},
                              lab_);
  }

  TrainingLabOptions options_;
  record::LabRecord lab_;
  int ticks_ = 0, most_ticks_ = 1 << 20;
  std::vector<std::string> works_, notes_;
  std::vector<int64_t> totals_;

 private:
  files::OwnCache cache_;
};

TEST_F(ListenedLab, RunsEachLevelAtEachSize) {
  run();
  ASSERT_EQ(lab_.runs.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(lab_.runs[i].setting.level, i % 2 == 0 ? "baseline" : "fused");
    EXPECT_EQ(lab_.runs[i].setting.batch_size, i < 2 ? 1 : 2);
    EXPECT_EQ(lab_.runs[i].setting.sequence, 16);
    EXPECT_EQ(lab_.runs[i].losses.size(), 3u);
  }
  EXPECT_EQ(lab_.detailed, std::vector<size_t>{1}) << "the last level at the first size";
  EXPECT_FALSE(lab_.seeks_advice);
  // Four runs of one warm-up step and three others.
  EXPECT_EQ(ticks_, 16);
  EXPECT_EQ(totals_, std::vector<int64_t>(16, 16));
  ASSERT_EQ(works_.size(), 17u);
  EXPECT_EQ(works_[0], "lab");
  EXPECT_EQ(works_.back(), "measured");
  EXPECT_TRUE(notes_[0].starts_with("baseline, loss ")) << notes_[0];
  EXPECT_TRUE(std::ranges::any_of(
      notes_, [](const std::string& note) { return note.starts_with("fused, loss "); }));
}

TEST_F(ListenedLab, ReportsTheLevelsAndSizesThatAreAskedFor) {
  options_.profile_points = "all";
  options_.profile_levels = "baseline";
  run();
  EXPECT_EQ(lab_.detailed, (std::vector<size_t>{0, 2}));
}

// After the steps of the first size; then before any step is complete.
TEST_F(ListenedLab, SaysThatCtrlCEndedIt) {
  most_ticks_ = 8;
  options_.no_advice = false;
  run();
  ASSERT_EQ(lab_.runs.size(), 2u);
  ASSERT_EQ(std::ranges::count(lab_.warnings,
                               "Ctrl-C ended this lab early: 2 of 4 runs were measured, each of at "
                               "least 3 of 3 steps"),
            1);
  EXPECT_FALSE(lab_.seeks_advice);
  EXPECT_EQ(works_.back(), "measured");
  lab_.runs.clear();
  most_ticks_ = 0;
  works_.clear();
  run();
  EXPECT_TRUE(lab_.runs.empty());
  EXPECT_TRUE(works_.empty());
}

// Advice is looked for after the runs, and its first piece is tried beside the step as it is.
TEST_F(ListenedLab, TriesTheFirstPieceOfAdvice) {
  options_.no_advice = false;
  options_.levels = "baseline";
  options_.batch_sizes = "1";
  run();
  EXPECT_TRUE(lab_.seeks_advice);
  ASSERT_FALSE(lab_.advice.empty()) << "baseline can be fused";
  EXPECT_LE(lab_.advice.size(), 3u);
  ASSERT_EQ(lab_.trials.size(), 1u);
  EXPECT_EQ(lab_.trials[0].before.setting.level, "baseline");
  EXPECT_EQ(std::ssize(lab_.trials[0].before.losses), record::kLeastClearSteps);
  EXPECT_EQ(std::ssize(lab_.trials[0].after.losses), record::kLeastClearSteps);
  EXPECT_EQ(lab_.trials[0].advice.title, lab_.advice[0].title);
  const auto at = [&](const char* name) { return std::ranges::find(works_, name); };
  EXPECT_LT(at("measured"), at("advice"));
  EXPECT_LT(at("advice"), at("advised"));
  EXPECT_LT(at("advised"), at("trial of advice"));
  EXPECT_EQ(works_.back(), "tried");
}

TEST_F(ListenedLab, TriesNothingIfNoneIsAskedFor) {
  options_.no_advice = false;
  options_.levels = "baseline";
  options_.batch_sizes = "1";
  options_.trials = 0;
  run();
  EXPECT_FALSE(lab_.advice.empty());
  EXPECT_TRUE(lab_.trials.empty());
  EXPECT_EQ(works_.back(), "tried");
}

}  // namespace
}  // namespace ridge::bench
