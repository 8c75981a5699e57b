// SPDX-License-Identifier: Apache-2.0
// Laws and cliffs of points whose times are known.
#include "record/bench_record.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ridge::record {
namespace {

BenchPoint point(int64_t size, double ns, std::string form = "") {
  BenchPoint made;
  made.extents = {{"n", size}};
  made.form = std::move(form);
  made.dtype = "fp32";
  made.work.flops = 2 * size;
  made.time = {1, ns, ns, ns, 1};
  return made;
}

TEST(BenchRecord, FitsAPowerLawExactly) {
  const std::vector<BenchFit> fits = fit_laws(
      {point(2, 5 * 8, "a"), point(4, 5 * 64, "a"), point(8, 5 * 512, "a"), point(3, 9, "b")}, "n");
  ASSERT_EQ(fits.size(), 1u) << "form b has too few points";
  EXPECT_EQ(fits[0].form, "a");
  EXPECT_NEAR(fits[0].power, 3, 1e-9);
  EXPECT_NEAR(fits[0].factor, 5, 1e-9);
  EXPECT_NEAR(fits[0].residual, 0, 1e-9);
  EXPECT_TRUE(fit_laws({point(2, 1), point(2, 1), point(2, 1)}, "n").empty());
}

TEST(BenchRecord, MarksWhatDoesNotFollowItsNeighbours) {
  EXPECT_TRUE(find_cliffs({point(100, 100), point(200, 200), point(400, 420)}, "n").empty());
  const std::vector<BenchCliff> cliffs =
      find_cliffs({point(1000, 1000), point(1025, 2050), point(1050, 1050)}, "n");
  ASSERT_EQ(cliffs.size(), 1u);
  EXPECT_EQ(cliffs[0].point, "n=1025");
  EXPECT_NEAR(cliffs[0].ratio, 2, 1e-9);
  EXPECT_NE(cliffs[0].reason.find("1 over a multiple of 16"), std::string::npos);
}

TEST(BenchRecord, CliffsNameRowsByTheLastExtentAndOnlyWhereItVaries) {
  auto wide = [](int64_t n, int64_t d, double ns) {
    BenchPoint made = point(n * d, ns);
    made.extents = {{"n", n}, {"d", d}};
    return made;
  };
  const std::vector<BenchCliff> of_n =
      find_cliffs({wide(1, 2048, 100), wide(64, 2048, 6400), wide(512, 2048, 102400)}, "n");
  ASSERT_EQ(of_n.size(), 1u);
  EXPECT_EQ(of_n[0].reason, "") << "n is not the axis of the rows";
  const std::vector<BenchCliff> of_d =
      find_cliffs({wide(3, 2000, 2000), wide(3, 2048, 4096), wide(3, 2100, 2100)}, "d");
  ASSERT_EQ(of_d.size(), 1u);
  EXPECT_EQ(of_d[0].reason.find("rows of 8192 bytes"), 0u);
}

TEST(BenchRecord, SharesAreOfLimitsThatHold) {
  BenchPoint made = point(10, 100);
  EXPECT_FALSE(made.limit_share()) << "no limit is known";
  made.limit_ns = 25;
  EXPECT_DOUBLE_EQ(*made.limit_share(), 0.25);
  made.limit_ns = 101;
  EXPECT_FALSE(made.limit_share());
}

TEST(BenchRecord, RatesAreOfTimesThatAreKnown) {
  BenchPoint made = point(10, 100);
  made.planned_bytes = 40, made.compulsory_bytes = 10;
  EXPECT_DOUBLE_EQ(made.flops_per_s(), 20.0 / 100 * 1e9);
  EXPECT_DOUBLE_EQ(made.bytes_per_s(), 40.0 / 100 * 1e9);
  EXPECT_DOUBLE_EQ(made.planned_intensity(), 0.5);
  EXPECT_DOUBLE_EQ(made.compulsory_intensity(), 2);
  EXPECT_FALSE(made.prediction_error());
  made.predicted_ns = 150;
  EXPECT_DOUBLE_EQ(*made.prediction_error(), 0.5);
  EXPECT_EQ(made.ns(), 100);
  made.time = {};
  EXPECT_EQ(made.ns(), 150);
  EXPECT_FALSE(made.prediction_error());
  made.limit_ns = 10;
  EXPECT_FALSE(made.limit_share());
  made.predicted_ns = 0;
  EXPECT_EQ(made.flops_per_s(), 0);
  EXPECT_EQ(made.bytes_per_s(), 0);
}

TEST(BenchRecord, IntensitiesWithoutFusionNeedBytes) {
  BenchPoint made = point(10, 100);
  EXPECT_FALSE(made.unfused_intensity());
  made.unfused_bytes = 0;
  EXPECT_FALSE(made.unfused_intensity());
  made.unfused_bytes = 1;
  EXPECT_DOUBLE_EQ(*made.unfused_intensity(), 20);
  made.unfused_bytes = 80;
  EXPECT_DOUBLE_EQ(*made.unfused_intensity(), 0.25);
}

TEST(BenchRecord, BoundsByMemoryNameTheLevel) {
  BenchPoint made = point(10, 100);
  EXPECT_EQ(made.bound_by(), cost::name(cost::Bound::kNone));
  made.level = "L2";
  made.bound = cost::Bound::kCompute;
  EXPECT_EQ(made.bound_by(), "compute");
  made.bound = cost::Bound::kMemory;
  EXPECT_EQ(made.bound_by(), "L2");
  made.level = "";
  EXPECT_EQ(made.bound_by(), "memory");
}

TEST(BenchRecord, ExtentsAreFoundByTheirLetters) {
  const Extents extents = {{"n", 4}, {"d", 64}};
  EXPECT_EQ(str(extents), "n=4,d=64");
  EXPECT_EQ(str({}), "");
  EXPECT_EQ(*find(extents, "d"), 64);
  EXPECT_EQ(find(extents, "m"), nullptr);
}

// Forms and phases have laws of their own; what has no size or no time has none.
TEST(BenchRecord, LawsAreOfFormsAndPhases) {
  std::vector<BenchPoint> points;
  for (const char* phase : {"", "forward"})
    for (const char* form : {"", "fused"})
      for (const int64_t size : {1, 2, 4}) {
        points.push_back(point(size, static_cast<double>(size) * 10, form));
        points.back().phase = phase;
      }
  points.push_back(point(8, 0));
  points.push_back(point(8, 1));
  points.back().extents = {{"m", 8}};
  const std::vector<BenchFit> fits = fit_laws(points, "n");
  ASSERT_EQ(fits.size(), 4u);
  const std::vector<std::string> names = {"", "forward", "fused", "fused, forward"};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(fits[i].form, names[i]);
    EXPECT_EQ(fits[i].letter, "n");
    EXPECT_EQ(fits[i].points, 3);
    EXPECT_NEAR(fits[i].power, 1, 1e-9);
  }
  EXPECT_TRUE(fit_laws({point(1, 5), point(2, 5)}, "n").empty());
}

TEST(BenchRecord, LawsSayHowFarTheyAre) {
  const double e = std::exp(1);
  const std::vector<BenchFit> fits = fit_laws({point(1, 1), point(2, e), point(4, 1)}, "n");
  ASSERT_EQ(fits.size(), 1u);
  EXPECT_NEAR(fits[0].power, 0, 1e-9);
  EXPECT_NEAR(fits[0].factor, std::exp(1.0 / 3), 1e-9);
  EXPECT_NEAR(fits[0].residual, std::sqrt(2.0 / 9), 1e-9);
}

// A time per byte where there are no FLOPs; the last size has only the one before it.
TEST(BenchRecord, CliffsAreAQuarterAboveTheirNeighbours) {
  const auto bytes = [](int64_t size, double ns) {
    BenchPoint made = point(size, ns, "copy");
    made.work.flops = 0;
    made.planned_bytes = size;
    return made;
  };
  std::vector<BenchCliff> cliffs = find_cliffs({bytes(20, 20), bytes(40, 50)}, "n");
  ASSERT_EQ(cliffs.size(), 1u);
  EXPECT_EQ(cliffs[0].point, "copy: n=40");
  EXPECT_DOUBLE_EQ(cliffs[0].ratio, 1.25);
  EXPECT_EQ(cliffs[0].reason, "");
  EXPECT_TRUE(find_cliffs({bytes(20, 20), bytes(40, 49.9)}, "n").empty());
  EXPECT_TRUE(find_cliffs({bytes(20, 20), bytes(40, 80), bytes(60, 120)}, "n").empty());
  BenchPoint empty = bytes(20, 20);
  empty.planned_bytes = 0;
  EXPECT_TRUE(find_cliffs({empty, bytes(40, 80)}, "n").empty());
  cliffs = find_cliffs({bytes(16, 16), bytes(20, 40)}, "n");
  EXPECT_EQ(cliffs.at(0).reason, "20 is 4 over a multiple of 16: the last tile is nearly empty");
  cliffs = find_cliffs({bytes(16, 16), bytes(21, 42)}, "n");
  EXPECT_EQ(cliffs.at(0).reason, "");
}

TEST(BenchRecord, RowsCollideFrom2048BytesOn) {
  const auto reason = [](int64_t size, const char* dtype) {
    BenchPoint before = point(size - 1, static_cast<double>(size)),
               made = point(size, 4.0 * static_cast<double>(size));
    made.dtype = dtype;
    return find_cliffs({before, made}, "n").at(0).reason;
  };
  EXPECT_EQ(reason(512, "fp32"),
            "rows of 2048 bytes, a power of two, collide in few sets of the caches");
  EXPECT_EQ(reason(256, "fp32"), "");
  EXPECT_EQ(reason(512, "bf16"), "");
  for (const char* dtype : {"bf16", "fp16"})
    EXPECT_EQ(reason(1024, dtype),
              "rows of 2048 bytes, a power of two, collide in few sets of the caches");
  EXPECT_EQ(reason(768, "fp32"), "");
}

}  // namespace
}  // namespace ridge::record
