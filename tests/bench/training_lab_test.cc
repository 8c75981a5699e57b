// SPDX-License-Identifier: Apache-2.0
// A lab refuses options before anything runs, and keeps ceilings that its runs have corrected.
#include "bench/training_lab.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "cost/made_up_ceilings.h"
#include "files/scratch.h"

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
  KeptCeilings() { ::setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1); }
  ~KeptCeilings() override {
    before_ ? ::setenv("XDG_CACHE_HOME", before_->c_str(), 1) : ::unsetenv("XDG_CACHE_HOME");
  }

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
  static std::optional<std::string> environment(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  }

  files::ScratchFolder folder_;
  const std::optional<std::string> before_ = environment("XDG_CACHE_HOME");
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

}  // namespace
}  // namespace ridge::bench
