// SPDX-License-Identifier: Apache-2.0
// Tests what a lab refuses before anything runs.
#include "bench/training_lab.h"

#include <gtest/gtest.h>

#include "base/error.h"

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

}  // namespace
}  // namespace ridge::bench
