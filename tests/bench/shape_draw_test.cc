// SPDX-License-Identifier: Apache-2.0
// Drawn shapes: as many of each kind as is said, within their bounds, and the seed's.
#include "bench/shape_draw.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "cost/made_up_ceilings.h"
#include "train/small_run.h"

namespace ridge::bench {
namespace {

double extent(const DrawnShape& shape, std::string_view letter) {
  const int64_t* found = record::find(shape.request.extents, letter);
  return found == nullptr ? 0 : static_cast<double>(*found);
}

TEST(DrawShapes, HaveTheirShareOfEachKindAndBothTypes) {
  std::map<std::string, int64_t> kinds;
  std::map<std::string, std::map<std::string, int64_t>> types;
  for (const DrawnShape& each : draw_shapes(7, 40)) {
    ++kinds[each.kind];
    ++types[each.kind][each.request.type.name];
  }
  EXPECT_EQ(kinds,
            (std::map<std::string, int64_t>{
                {"attention", 6}, {"gemm", 12}, {"gemv", 6}, {"norm", 8}, {"pointwise", 8}}));
  for (const auto& [kind, counts] : types) {
    EXPECT_EQ(counts.at("fp32"), kinds.at(kind) / 2) << kind;
    EXPECT_EQ(counts.at("bf16"), kinds.at(kind) / 2) << kind;
  }
}

TEST(DrawShapes, AreOfTheLeastToTheMostBytesAndOfAtMostASecond) {
  std::map<std::string, std::pair<double, double>> bytes;  // the least and the most of a kind
  for (const DrawnShape& each : draw_shapes(7, 400)) {
    const double width = each.request.type.name == "bf16" ? 2 : 4;
    const double n = extent(each, "n"), k = extent(each, "k"), m = extent(each, "m");
    double held = 0;
    if (each.kind == "gemm") held = width * (n * k + k * m + n * m);
    EXPECT_LE(2 * n * k * m, 6e10);  // 0 for others than a gemm
    if (each.kind == "gemv") held = width * k * m;
    if (each.kind == "norm") held = width * n * extent(each, "d");
    if (each.kind == "pointwise") held = width * n;
    if (held == 0) continue;
    EXPECT_LE(held, std::exp2(31)) << each.op->name;
    auto& [least, most] = bytes.try_emplace(each.kind, held, held).first->second;
    least = std::min(least, held);
    most = std::max(most, held);
  }
  // The bytes are spread over 16 octaves, so 60 or more shapes reach both ends.
  for (const auto& [kind, range] : bytes) {
    EXPECT_GE(range.first, std::exp2(13)) << kind;
    EXPECT_LE(range.first, std::exp2(19)) << kind;
    EXPECT_GE(range.second, std::exp2(26)) << kind;
  }
}

// The errors of predictions in percent, over all shapes and over those of each kind.
TEST(TimeShapes, SumUpTheErrorsOfPredictions) {
  std::vector<DrawnShape> small;
  for (const DrawnShape& each : draw_shapes(7, 100))
    if (each.kind == "pointwise" && extent(each, "n") < 1e6 && small.size() < 3)
      small.push_back(each);
  ASSERT_EQ(small.size(), 3u);
  TrialRunner runner(
      {.budget_ns = 1, .make_backend = [](const auto&) { return train::cpu_backend(1); }});
  runner.set_ceilings(cost::made_up_ceilings({{1, 10, 10}, {1 << 30, 10, 10}}, 100));
  const record::BenchRecord made = time_shapes(small, runner, [](int64_t, const std::string&) {});
  ASSERT_EQ(made.points.size(), 3u);
  std::vector<double> percent;
  for (const record::BenchPoint& point : made.points)
    percent.push_back(100 * std::abs(point.predicted_ns / point.time.median - 1));
  std::ranges::sort(percent);
  ASSERT_EQ(made.notes.size(), 2u);
  for (const std::string& note : made.notes) {
    double median = 0, largest = 0;
    const size_t numbers = note.find("shapes, ");
    ASSERT_NE(numbers, std::string::npos) << note;
    ASSERT_EQ(std::sscanf(note.c_str() + numbers,
                          "shapes, median absolute error %lf%%, 90%% within %*f%%, largest %lf%%.",
                          &median, &largest),
              2)
        << note;
    EXPECT_NEAR(median, percent[1], 0.06) << note;
    EXPECT_NEAR(largest, percent[2], 0.6) << note;
  }
  EXPECT_EQ(made.notes[0].find("all: 3 shapes"), 0u) << made.notes[0];
  EXPECT_EQ(made.notes[1].find("pointwise: 3 shapes"), 0u) << made.notes[1];
}

TEST(DrawShapes, AreThoseOfTheSeed) {
  const std::vector<DrawnShape> all = draw_shapes(3, 30), some = draw_shapes(3, 20),
                                others = draw_shapes(4, 20);
  int64_t same = 0;
  for (size_t i = 0; i < some.size(); ++i) {
    EXPECT_EQ(some[i].request.extents, all[i].request.extents) << i;
    EXPECT_EQ(some[i].op, all[i].op) << i;
    same += some[i].request.extents == others[i].request.extents;
  }
  EXPECT_LE(same, 1);
}

}  // namespace
}  // namespace ridge::bench
