// SPDX-License-Identifier: Apache-2.0
// Benches of an op's cases and of its calls in the presets.
#include "bench/op_bench.h"

#include <gtest/gtest.h>

#include "bench/op_trial.h"
#include "cost/made_up_ceilings.h"
#include "models/known_shapes.h"
#include "ops/registry.h"
#include "train/small_run.h"

namespace ridge::bench {
namespace {

// The table and the ids of each preset, and no call of another op.
TEST(PresetCases, AreTheCallsOfTheOp) {
  const auto backend = train::cpu_backend(1);
  const std::vector<Case> found = preset_cases(ops::table().at("embedding"), DType::kF32, *backend);
  ASSERT_EQ(found.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    const models::Preset& preset = models::preset(i == 0 ? "small" : "tiny");  // the largest first
    ASSERT_EQ(found[i].inputs.size(), 2u);
    EXPECT_EQ(found[i].inputs[0].type,
              (Type{DType::kF32, {preset.config.vocabulary, preset.config.hidden}}));
    EXPECT_EQ(found[i].inputs[1].type, (Type{DType::kI32, {preset.batch_size * preset.sequence}}));
  }
}

TEST(PresetCases, AreOfTheTypeOfActivations) {
  const auto backend = train::cpu_backend(1);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const std::vector<Case> found = preset_cases(ops::table().at("matmul"), dtype, *backend);
    ASSERT_FALSE(found.empty());
    EXPECT_EQ(found[0].inputs[0].type.dtype, dtype);
  }
}

// Points name the library of the device, as options do, and other implementations as they are.
TEST(OpBench, NamesTheLibraryOfTheDevice) {
  TrialRunner runner({.make_backend = [](const auto&) { return train::cpu_backend(1); }});
  runner.set_ceilings(cost::made_up_ceilings({{1, 10, 10}, {1 << 30, 10, 10}}, 100));
  OpBenchOptions options;
  options.shape = "n=4,k=8,m=16";
  options.implementation = "onednn,native";
  const OpBench bench(options, *find_op_shape("matmul"));
  EXPECT_EQ(bench.size(), 2);
  std::vector<std::string> forms;
  for (const record::BenchPoint& point : bench.run(runner, [](int64_t, const auto&) {}).points) {
    forms.push_back(point.form);
    EXPECT_EQ(point.work.macs, 4 * 8 * 16);
  }
  EXPECT_EQ(forms, (std::vector<std::string>{"onednn", "native"}));
}

TEST(OpCaseBench, HasAPointForEachCase) {
  TrialRunner runner({.make_backend = [](const auto&) { return train::cpu_backend(1); }});
  runner.set_ceilings(cost::made_up_ceilings({{1, 10, 10}, {1 << 30, 10, 10}}, 100));
  const CaseInput input{{DType::kF32, {64, 32}}, {}, false};
  const std::vector<Case> cases = {{"one", {input, input}, {}}, {"two", {input, input}, {}}};
  std::vector<std::string> told;
  const record::BenchRecord made =
      OpCaseBench("add", {}).run(cases, runner, [&](int64_t points, const std::string& note) {
        EXPECT_EQ(points, 1);
        told.push_back(note);
      });
  EXPECT_EQ(made.kind, "op");
  EXPECT_EQ(made.name, "add");
  EXPECT_EQ(made.formula, ops::table().at("add").formula);
  EXPECT_EQ(made.dtype, "fp32");
  ASSERT_EQ(made.points.size(), 2u);
  for (const record::BenchPoint& point : made.points) {
    EXPECT_EQ(point.work.flops, 64 * 32);
    EXPECT_EQ(point.dtype, "fp32");
    EXPECT_TRUE(point.is_measured());
  }
  EXPECT_EQ(told, (std::vector<std::string>{"one", "two"}));
}

// Ceilings that no machine is below: what is faster than they allow has no share of them, and the
// note says why.
TEST(OpCaseBench, SaysWhyAnOpIsFasterThanItsLimit) {
  const CaseInput input{{DType::kF32, {64, 32}}, {}, false};
  const auto note = [&](double bytes_per_ns, double others_share) {
    TrialRunner runner({.make_backend = [](const auto&) { return train::cpu_backend(1); }});
    cost::Ceilings ceilings = cost::made_up_ceilings(
        {{1, bytes_per_ns, bytes_per_ns}, {1 << 30, bytes_per_ns, bytes_per_ns}}, 100);
    ceilings.others_share = others_share;
    runner.set_ceilings(ceilings);
    const record::BenchRecord made = OpCaseBench("add", {}).run(
        {{"one", {input, input}, {}}}, runner, [](int64_t, const auto&) {});
    EXPECT_EQ(made.notes[0].rfind("The limit is the longest of", 0), 0u) << made.notes[0];
    return made.notes.size() == 2 ? made.notes[1] : "";
  };
  EXPECT_EQ(note(1e-6, 0).rfind("faster: than the limit, which is no exact one", 0), 0u);
  EXPECT_NE(note(1e-6, 0.25).find("other programs used 25% of the machine"), std::string::npos);
  EXPECT_EQ(note(1e6, 0), "");
}

}  // namespace
}  // namespace ridge::bench
