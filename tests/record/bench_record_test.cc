// SPDX-License-Identifier: Apache-2.0
// Laws and cliffs of points whose times are known.
#include "record/bench_record.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace ridge::record
