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
        "flash-attention", "kv-cache", "three-loops", "mlp-multiples", "add-and-matmul-2048",
        "initialisation", "contiguity", "divergence"})
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

// The lecture's counts: 4 layers of 256 x 256, forward and backward, for a batch of 256.
TEST(Demos, MultiplesOfAnMlpCountTheirWork) {
  const record::BenchRecord record = shown(*find_demo("mlp-multiples"), 1);
  ASSERT_EQ(record.points.size(), 20u);
  constexpr int64_t kStep = int64_t{3} * 4 * 256 * 256 * 256;
  for (const record::BenchPoint& point : record.points) {
    const int64_t times = point.extents[0].second;
    EXPECT_EQ(point.work.macs, kStep * times * (point.form == "width" ? times : 1)) << point.form;
    EXPECT_EQ(point.launches, 20 * (point.form == "steps" || point.form == "layers" ? times : 1));
  }
}

// The projections of keys and values of SmolLM2 135M: 2 x 576 x 192 a token.
TEST(Demos, KeysAndValuesAgainCostTheirProjections) {
  const record::BenchRecord record = shown(*find_demo("kv-cache"), 1);
  int found = 0;
  for (size_t i = 1; i < record.points.size(); ++i) {
    if (record.points[i].form != "keys and values again") continue;
    ++found;
    const int64_t context = record.points[i].extents[0].second;
    EXPECT_EQ(record.points[i].work.macs - record.points[i - 1].work.macs, 2 * context * 576 * 192);
  }
  EXPECT_EQ(found, 5);
}

TEST(Demos, ThreeLoopsAreTheProduct) {
  const record::BenchRecord record = shown(*find_demo("three-loops"), 1e9);
  ASSERT_EQ(record.points.size(), 16u);
  EXPECT_EQ(record.points[0].work.macs, 64 * 64 * 64);
  EXPECT_EQ(record.points[8].work.macs, 64 * 64);
  const size_t at = record.finding.find("at most ");
  ASSERT_NE(at, std::string::npos);
  EXPECT_LT(std::stod(record.finding.substr(at + 8)), 1e-4);
}

// 7 x 14 = 98 tiles fit the multiprocessors at once, 8 x 15 = 120 do not.
TEST(Demos, OneRowMoreIsAWaveMore) {
  const record::BenchRecord record = shown(*find_demo("tile-and-wave-quantization"), 1);
  std::string notes;
  for (const std::string& note : record.notes) notes += note + "\n";
  EXPECT_NE(notes.find("2 x 3 = 6 tiles, 2 of them with 1 column of 128"), notes.npos) << notes;
  EXPECT_NE(notes.find("7 x 14 = 98 tiles of 256 x 128 in 1 wave of 108"), notes.npos) << notes;
  EXPECT_NE(notes.find("8 x 15 = 120 tiles of 256 x 128 in 2 waves of 108"), notes.npos) << notes;
}

// The slide has the tile at M00 in its third phase, beside that at N20.
TEST(Demos, TilesOfASmallProduct) {
  std::string notes;
  for (const std::string& note : shown(*find_demo("tiling"), 1).notes) notes += note + "\n";
  for (const char* each :
       {"thread 10 reads M10 N00 M11 N10 M12 N20 M13 N30.", "M00 by 00 and 01, N10 by 00 and 10.",
        "phase 3 loads the tiles that begin at M02 and N20", "16 reads for 32."})
    EXPECT_NE(notes.find(each), notes.npos) << each << notes;
}

// The lecture prints five products and four multiples of each kind.
TEST(Demos, HaveTheTimesOfTheLecture) {
  int64_t found = 0;
  for (const char* name : {"gemm-scaling", "mlp-multiples"})
    for (const record::BenchPoint& point : shown(*find_demo(name), 1).points)
      found += std::ssize(point.published_ns);
  EXPECT_EQ(found, 5 + 4 * 4);
}

// Four functions of each side for every lane, and a comparison, a difference, a product and a sum.
TEST(Demos, LanesThatDifferComputeBothSides) {
  const record::BenchRecord record = shown(*find_demo("divergence"), 1);
  ASSERT_EQ(record.points.size(), 9u);
  for (size_t i = 0; i < record.points.size(); i += 3) {
    const int64_t n = record.points[i].extents[0].second;
    EXPECT_EQ(record.points[i + 2].work.flops,
              record.points[i].work.flops + record.points[i + 1].work.flops + 4 * n);
    EXPECT_EQ(record.points[i + 2].planned_bytes, 8 * n) << "one kernel";
  }
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
