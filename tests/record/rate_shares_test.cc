// SPDX-License-Identifier: Apache-2.0
// Shares of a machine's rates, against divisions made by hand, and their reasons above 100%.
#include "record/rate_shares.h"

#include <gtest/gtest.h>

#include "cost/made_up_ceilings.h"

namespace ridge::record {
namespace {

// A cache of 1 MB, and memory at 10 bytes per ns.
cost::Ceilings machine() {
  cost::Ceilings c = cost::made_up_ceilings({{int64_t{1} << 24, 10, 10}}, 50);
  c.levels.insert(c.levels.begin(), {"L3", 1'000'000, 100, 100, 0});
  c.measured_at = "2026-01-02T03:04:05Z";
  c.multiplies = {{DType::kI16, "vpmaddwd ymm", 64, 200, 160, 150, ""}};
  c.unpacks = {{DType::kQ4_0x16, 5}};
  return c;
}

RatedWork work(int64_t macs, int64_t weight_bytes, double ns) {
  return {{{{DType::kI16, macs}}, {{DType::kQ4_0x16, weight_bytes}}}, 0, weight_bytes, ns};
}

TEST(RateShares, AreLeastTimesOverTheTime) {
  RatedWork decode = work(8000, 2'000'000, 500'000);
  decode.cache_bytes = 500'000;
  const RateShares s = rate_shares(decode, machine());
  EXPECT_DOUBLE_EQ(s.ops_per_ns, 16'000 / 500'000.0);
  EXPECT_DOUBLE_EQ(s.of_theoretical, 16'000 / 200.0 / 500'000);
  EXPECT_DOUBLE_EQ(s.of_multiply, 16'000 / 160.0 / 500'000);
  EXPECT_DOUBLE_EQ(s.bytes_per_ns, 5);
  EXPECT_DOUBLE_EQ(s.of_reads, 0.5);
  EXPECT_DOUBLE_EQ(s.of_read_and_unpack, (2'000'000 / 5.0 + 500'000 / 10.0) / 500'000);
  EXPECT_DOUBLE_EQ(s.unpack_bytes_per_ns, 5);
  EXPECT_EQ(s.multiply_reason, "");
  EXPECT_EQ(s.read_reason, "");
  EXPECT_DOUBLE_EQ(rate_shares(work(60, 0, 1), machine()).of_multiply, 120 / 160.0);
}

TEST(RateShares, HaveAReasonAbove100Percent) {
  const RateShares in_cache = rate_shares(work(1, 900'000, 50'000), machine());
  EXPECT_GT(in_cache.of_reads, 1);
  EXPECT_NE(in_cache.read_reason.find("last-level cache"), std::string::npos);
  const RateShares too_low = rate_shares(work(16'000'000, 1, 170'000), machine());
  EXPECT_GT(too_low.of_multiply, 1);
  EXPECT_LT(too_low.of_theoretical, 1);
  EXPECT_NE(too_low.multiply_reason.find("measure it again"), std::string::npos);
  cost::Ceilings narrow = machine();
  narrow.multiplies[0].theoretical_ops_per_ns = 150;
  const RateShares wide = rate_shares(work(16'000'000, 1, 205'000), narrow);
  EXPECT_GT(wide.of_theoretical, 1);
  EXPECT_NE(wide.multiply_reason.find("core widths"), std::string::npos);
}

TEST(RateShares, AreUnknownWithoutATime) {
  const RateShares s = rate_shares(work(8000, 2000, 0), machine());
  EXPECT_EQ(s.of_reads, 0);
  EXPECT_EQ(s.of_multiply, 0);
  EXPECT_EQ(s.read_reason, "");
}

}  // namespace
}  // namespace ridge::record
