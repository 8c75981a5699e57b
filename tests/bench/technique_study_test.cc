// SPDX-License-Identifier: Apache-2.0
// A study of techniques on another machine than this one, so that nothing is timed.
#include "bench/technique_study.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "bench/extents.h"
#include "cost/made_up_ceilings.h"
#include "files/scratch.h"
#include "serve/real_model.h"

namespace ridge::bench {
namespace {

StudyChoice some_choice() {
  StudyChoice choice;
  choice.title = "tiny";
  choice.techniques = choose_techniques("eager,compiled");
  choice.batches = {1, 2};
  choice.lengths = {16};
  choice.dtypes = {"fp32"};
  choice.budget_ns = 1e9;
  return choice;
}

// The points, where `most` of them are complete.
record::BenchRecord studied(const StudyChoice& choice,
                            int64_t most = 100,
                            int64_t memory_bytes = 0) {
  const models::ModelFile file = open_studied("tiny");
  int64_t complete = 0;
  TrialRunner trials({.runs = false,
                      .is_stopped = [&] { return complete >= most; },
                      .make_backend = {},
                      .planned = &serve::cpu_backend()});
  cost::Ceilings sheet = cost::made_up_ceilings({{int64_t{1} << 30, 10, 10}}, 100);
  sheet.machine.memory_bytes = memory_bytes;
  trials.set_ceilings(sheet);
  TechniqueStudy study(file, choice, trials, [](const passes::Selection&, const std::string&) {
    return record::Setting();
  });
  return study.run([&](int64_t points, const std::string&) { complete += points / 2; });
}

TEST(TechniqueStudy, PredictsEachPhaseAtEachSize) {
  const record::BenchRecord made = studied(some_choice());
  EXPECT_EQ(made.name, "inference of tiny");
  EXPECT_EQ(made.dtype, "fp32");
  ASSERT_EQ(made.points.size(), 8u);
  for (size_t i = 0; i < 8; ++i) {
    const record::BenchPoint& point = made.points[i];
    EXPECT_EQ(point.phase, i % 2 == 0 ? "prefill" : "decode");
    EXPECT_EQ(point.form, i / 2 % 2 == 0 ? "eager" : "compiled");
    EXPECT_EQ(point.extents[0].second, i < 4 ? 1 : 2);
    EXPECT_GT(point.predicted_ns, 0);
    EXPECT_EQ(point.refused, "");
    EXPECT_GT(point.work.macs, 0);
    EXPECT_GT(point.launches, 0);
    EXPECT_GT(point.limit_ns, 0);
    EXPECT_GT(point.planned_bytes, point.compulsory_bytes / 2);
    EXPECT_GT(point.compulsory_bytes, 0);
    EXPECT_GT(point.owned_bytes, 0);
  }
  for (size_t i = 0; i < 4; ++i)  // twice the sequences
    EXPECT_EQ(made.points[i + 4].work.macs, 2 * made.points[i].work.macs) << i;
  EXPECT_EQ(made.notes.size(), 3u);  // two techniques
  EXPECT_EQ(lacking_memory(made), "");
}

// Reserving the context of 256 positions takes 16 times the memory of 16 keys in pages.
TEST(TechniqueStudy, SaysWhatPagingSaves) {
  StudyChoice choice = some_choice();
  choice.techniques = choose_techniques("paged");
  choice.batches = {2};
  const record::BenchRecord made = studied(choice);
  const int64_t context = open_studied("tiny").config().context;
  const std::string want = fmt::format("{:.2f} times as much", static_cast<double>(context) / 16);
  ASSERT_EQ(made.notes.size(), 3u);
  EXPECT_NE(made.notes[2].find("2 sequences of 16 keys"), std::string::npos) << made.notes[2];
  EXPECT_NE(made.notes[2].find(want), std::string::npos) << made.notes[2];
  choice.techniques = choose_techniques("flash,paged");
  EXPECT_EQ(studied(choice).notes.size(), 4u) << "one of the techniques has pages";
  choice.techniques = choose_techniques("flash");
  EXPECT_EQ(studied(choice).notes.size(), 2u);
}

TEST(TechniqueStudy, RefusesWhatTheSheetCannotHold) {
  const record::BenchRecord made = studied(some_choice(), 100, 1 << 20);
  ASSERT_EQ(made.points.size(), 8u);
  for (const record::BenchPoint& point : made.points) {
    EXPECT_TRUE(point.lacks_memory);
    EXPECT_EQ(point.predicted_ns, 0);
    EXPECT_NE(point.refused.find("of memory, there are 1.00 MiB"), std::string::npos);
  }
  EXPECT_NE(lacking_memory(made), "");
}

TEST(TechniqueStudy, KeepsWhatWasCompleteWhenItWasStopped) {
  EXPECT_EQ(studied(some_choice(), 3).points.size(), 6u);
  EXPECT_EQ(studied(some_choice(), 0).points.size(), 0u);
}

TEST(TechniqueStudy, RefusesWhatTheModelDoesNotAllow) {
  const models::ModelFile file = open_studied("tiny");
  EXPECT_EQ(study_title(file, "a/b.gguf"), "tiny");
  validate(some_choice(), file);
  const auto expect = [&](void (*change)(StudyChoice&), const char* reason) {
    StudyChoice choice = some_choice();
    change(choice);
    files::expect_error([&] { validate(choice, file); }, ExitCode::kUsage, reason);
  };
  expect([](StudyChoice& c) { c.dtypes = {kStoredType}; },
         "expected some of fp32, bf16 for a configuration, got file");
  expect([](StudyChoice& c) { c.dtypes = {"fp8"}; }, "[dtype] expected some of fp32, bf16, got");
  expect([](StudyChoice& c) { c.lengths = {1 << 30}; }, "[seq-len] expected at most");
  expect([](StudyChoice& c) { c.batches = {1 << 30}; }, "[batch-size] expected at most");
  expect([](StudyChoice& c) { c.lengths.assign(1 << 20, 1); }, "[study] expected at most");
}

TEST(TechniqueStudy, SaysWhyNothingRan) {
  record::BenchRecord study;
  EXPECT_EQ(lacking_memory(study), "");
  study.points.resize(2);
  study.points[0].refused = study.points[1].refused = "too large";
  EXPECT_EQ(lacking_memory(study), "");
  study.points[0].lacks_memory = true;
  EXPECT_EQ(lacking_memory(study), "too large");
  study.points[1].refused = "";
  EXPECT_EQ(lacking_memory(study), "");
}

TEST(UsualLengths, FitTheContext) {
  EXPECT_EQ(usual_lengths(2048), (std::vector<int64_t>{128, 512}));
  EXPECT_EQ(usual_lengths(256), (std::vector<int64_t>{128, 256}));
  EXPECT_EQ(usual_lengths(64), std::vector<int64_t>{64});
}

// --- On this machine. ---

StudyChoice measured_choice() {
  StudyChoice choice = some_choice();
  choice.techniques = choose_techniques("eager,flash");
  choice.batches = {2};
  choice.budget_ns = 1e15;  // however slow the machine
  return choice;
}

record::BenchRecord measured(const StudyChoice& choice) {
  const models::ModelFile file = open_studied("tiny");
  TrialRunner trials({.make_backend = [](const passes::Selection&) {
    backends::cpu::CpuOptions one;
    one.threads = 1;
    return backends::cpu::make_cpu_backend(one);
  }});
  trials.set_ceilings(cost::made_up_ceilings({{int64_t{1} << 30, 10, 10}}, 100));
  std::vector<std::string> switches;
  TechniqueStudy study(file, choice, trials,
                       [&](const passes::Selection&, const std::string& used) {
                         switches.push_back(used);
                         return record::Setting();
                       });
  std::vector<std::string> told;
  record::BenchRecord made = study.run([&](int64_t points, const std::string& note) {
    EXPECT_EQ(points, 2);
    told.push_back(note);
  });
  EXPECT_EQ(told, (std::vector<std::string>{"eager 2 x 16", "flash 2 x 16"}));
  EXPECT_EQ(switches.size(), 2u);
  return made;
}

TEST(TechniqueStudy, TimesWhatTheBudgetAllows) {
  const record::BenchRecord made = measured(measured_choice());
  ASSERT_EQ(made.points.size(), 4u);
  for (const record::BenchPoint& point : made.points) {
    EXPECT_EQ(point.refused, "");
    EXPECT_TRUE(point.is_measured());
    EXPECT_GE(point.time.count, 3);
    EXPECT_EQ(point.name, "tiny");
  }
  EXPECT_FALSE(made.points[1].speedup);
  EXPECT_DOUBLE_EQ(*made.points[3].speedup,
                   made.points[1].time.median / made.points[3].time.median);
}

TEST(TechniqueStudy, PredictsWhatTheBudgetDoesNotAllow) {
  StudyChoice choice = measured_choice();
  choice.budget_ns = 1;
  for (const record::BenchPoint& point : measured(choice).points) {
    EXPECT_TRUE(point.refused.starts_with("would take about ")) << point.refused;
    EXPECT_TRUE(point.refused.ends_with(", and 1.00 ns of the budget are left")) << point.refused;
    EXPECT_FALSE(point.lacks_memory);
    EXPECT_GT(point.predicted_ns, 0);
    EXPECT_FALSE(point.is_measured());
  }
}

// Where another rank refuses a point, this one does, too.
TEST(TechniqueStudy, FollowsTheOtherRanks) {
  StudyChoice choice = measured_choice();
  choice.any = [](bool) { return true; };
  for (const record::BenchPoint& point : measured(choice).points) {
    EXPECT_EQ(point.refused, "needs more memory than another rank has");
    EXPECT_TRUE(point.lacks_memory);
    EXPECT_EQ(point.predicted_ns, 0);
  }
}

TEST(TechniqueStudy, HasPublishedTimesOfOneRankAlone) {
  published_times() = {{"A, fast", "tiny", "eager", true, 16, 1, 5}};
  for (const int64_t ranks : {1, 2}) {
    StudyChoice choice = some_choice();
    choice.ranks = ranks;
    const record::BenchRecord made = studied(choice);
    const auto has_note = [&](std::string_view begin) {
      return std::ranges::any_of(made.notes,
                                 [&](const std::string& note) { return note.starts_with(begin); });
    };
    EXPECT_EQ(made.points[1].published_ns.size(), ranks == 1 ? 1u : 0u);
    EXPECT_TRUE(made.points[0].published_ns.empty());
    EXPECT_EQ(has_note("Published times are of other machines"), ranks == 1);
    EXPECT_EQ(has_note("2 ranks share the model (tensor parallel)."), ranks == 2);
  }
  published_times().clear();
}

// A file and a folder with weights are models, a configuration alone is a shape.
TEST(TechniqueStudy, OpensAFileOrAShape) {
  EXPECT_TRUE(open_studied(serve::data_folder() + "llama_fp32").has_weights());
  EXPECT_FALSE(open_studied(serve::data_folder() + "llama_fp32/config.json").has_weights());
  EXPECT_FALSE(open_studied("tiny").has_weights());
  EXPECT_EQ(study_title(models::ModelFile::of_shape({}), "a/b.c/model.gguf"), "model");
}

}  // namespace
}  // namespace ridge::bench
