// SPDX-License-Identifier: Apache-2.0
// Every demo runs, predicts what its budget does not allow, and says what it found.
#include <gtest/gtest.h>

#include <set>

#include "cost/made_up_ceilings.h"
#include "courses/demos/demo.h"
#include "train/small_run.h"

namespace ridge::courses {
namespace {

record::BenchRecord shown(const Demo& demo, double budget_ns) {
  static const auto backend = train::cpu_backend(1);
  static const cost::Ceilings ceilings =
      cost::made_up_ceilings({{1, 10, 10}, {1 << 30, 10, 10}}, 10);
  return show(demo, Fixture([](const passes::Selection&) -> backends::Backend& { return *backend; },
                            ceilings, budget_ns, [] { return false; }));
}

TEST(Demos, AreAllThere) {
  std::set<std::string_view> names;
  for (const Demo& each : demos()) names.insert(each.name);
  for (const char* name :
       {"gemm-ladder", "gemm-scaling", "mlp-scaling", "timing", "launch-overhead", "precision",
        "fusion", "recompute", "coalescing", "tiling", "tile-and-wave-quantization",
        "flash-attention", "kv-cache", "add-and-matmul-2048", "initialisation", "contiguity"})
    EXPECT_TRUE(names.contains(name)) << name;
  EXPECT_EQ(names.size(), demos().size());
  EXPECT_EQ(find_demo("nothing"), nullptr);
}

TEST(Demos, SayWhatTheyPredictAndFind) {
  for (const Demo& each : demos()) {
    SCOPED_TRACE(each.name);
    const record::BenchRecord record = shown(each, 5e7);
    EXPECT_FALSE(record.claim.empty());
    EXPECT_FALSE(record.prediction.empty());
    EXPECT_FALSE(record.finding.empty());
    EXPECT_EQ(record.teaches.size(), 4u);
    for (const std::string& sentence : record.teaches)
      EXPECT_TRUE(sentence.ends_with(".")) << sentence;
    EXPECT_TRUE(!record.points.empty() || !record.values.empty());
    for (const record::BenchPoint& point : record.points)
      EXPECT_EQ(point.refused, "") << point.form;
  }
}

TEST(Demos, PredictWhatTheBudgetDoesNotAllow) {
  const record::BenchRecord record = shown(*find_demo("gemm-scaling"), 1);
  ASSERT_FALSE(record.points.empty());
  for (const record::BenchPoint& point : record.points) {
    EXPECT_FALSE(point.is_measured());
    EXPECT_GT(point.predicted_ns, 0);
  }
  ASSERT_FALSE(record.notes.empty());
  EXPECT_NE(record.notes.back().find("they are predicted"), std::string::npos);
}

// The losses are those of a model that gives each of 1000 tokens the same probability, and of one
// that is sure of a wrong one.
TEST(Demos, InitialisationHasTheLossOfNoKnowledge) {
  const record::BenchRecord record = shown(*find_demo("initialisation"), 1e9);
  ASSERT_EQ(record.values.size(), 6u);
  EXPECT_NEAR(record.values.front().second, std::log(1000.0), 0.1);
  EXPECT_GT(record.values.back().second, 500);
}

// Keeping costs passes over memory, computing again costs FLOPs.
TEST(Demos, RecomputeMovesFivePasses) {
  const record::BenchRecord record = shown(*find_demo("recompute"), 1);
  for (const record::BenchPoint& point : record.points)
    if (point.form == "computed again")
      EXPECT_EQ(point.planned_bytes, 5 * 4 * point.extents[0].second);
    else
      EXPECT_GE(point.planned_bytes, 8 * 4 * point.extents[0].second);
}

}  // namespace
}  // namespace ridge::courses
