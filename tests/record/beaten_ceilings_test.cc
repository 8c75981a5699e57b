// SPDX-License-Identifier: Apache-2.0
// Which ceilings a small step disproves, and what they are raised to.
#include "record/beaten_ceilings.h"

#include <gtest/gtest.h>

#include "cost/made_up_ceilings.h"

namespace ridge::record {
namespace {

NodeRecord node(const char* op, int64_t macs, int64_t bytes, int64_t ns, int64_t calls = 1) {
  NodeRecord record;
  record.op = op;
  record.calls = calls;
  record.work = {macs, 2 * macs, 0};
  record.read_bytes = bytes;
  record.exclusive_ns = ns;
  return record;
}

// Memory has 10 bytes/ns behind a cache of 1 MiB, GEMMs 100 FLOPs/ns.
cost::Ceilings ceilings() {
  cost::Ceilings c = cost::made_up_ceilings({{1 << 16, 40, 40}, {1 << 30, 10, 10}}, 100);
  c.levels = {{"L2", 1 << 20, 40, 40, 0}, {"memory", int64_t{1} << 34, 10, 10, 0}};
  c.measured_at = "2026-01-02T03:04:05Z";
  return c;
}

StepRecord step(std::vector<NodeRecord> nodes) {
  StepRecord record;
  for (const NodeRecord& each : nodes) record.wall_ns += each.exclusive_ns;
  record.nodes = std::move(nodes);
  return record;
}

TEST(BeatenCeilings, AreNoneWhereRatesAreBelow) {
  const StepRecord slow =
      step({node("matmul", 52'000, 0, 1'000), node("copy", 0, 40'000'000, 4'000'000)});
  EXPECT_TRUE(beaten_ceilings(slow, DType::kF32, ceilings()).empty());  // 4% is the spread
}

TEST(BeatenCeilings, AreRaisedToWhatWasReached) {
  const StepRecord fast = step({node("matmul", 100'000, 0, 1'000), node("matmul", 0, 0, 0),
                                node("copy", 0, (1 << 20) + 40'000'000, 2'000'000)});
  const auto beaten = beaten_ceilings(fast, DType::kF32, ceilings());
  ASSERT_EQ(beaten.size(), 1u);  // the GEMM takes less than a hundredth of the step
  EXPECT_EQ(beaten[0].str(), "copy reached 20.0 GB/s, above memory's bandwidth of 10.0 GB/s");
  const cost::Ceilings c = raised(ceilings(), beaten);
  EXPECT_EQ(c.memory_bytes_per_ns(), 20);
  EXPECT_EQ(c.bandwidth.back().read_bytes_per_ns, 20);
  EXPECT_EQ(c.levels.front().copy_bytes_per_ns, 40);
  EXPECT_EQ(c.peak_flops_per_ns(DType::kF32), 100);
  EXPECT_TRUE(beaten_ceilings(fast, DType::kF32, c).empty());
}

TEST(BeatenCeilings, NameTheFastestGemm) {
  const StepRecord fast = step({node("matmul", 100'000, 0, 1'000), node("glu", 60'000, 0, 1'000)});
  const auto beaten = beaten_ceilings(fast, DType::kF32, ceilings());
  ASSERT_EQ(beaten.size(), 1u);
  EXPECT_EQ(beaten[0].str(), "matmul reached 200 GFLOP/s, above the f32 peak of 100 GFLOP/s");
  EXPECT_EQ(raised(ceilings(), beaten).peak_flops_per_ns(DType::kF32), 200);
}

// A cache may hold a megabyte of what each call reads.
TEST(BeatenCeilings, LeaveToCachesWhatTheyCanHold) {
  const StepRecord cached = step({node("copy", 0, 8 << 20, 10'000, 8)});
  EXPECT_TRUE(beaten_ceilings(cached, DType::kF32, ceilings()).empty());
}

TEST(BeatenCeilings, AreNoneOfADataSheet) {
  cost::Ceilings sheet = ceilings();
  sheet.measured_at = "";
  const StepRecord fast = step({node("matmul", 100'000, 0, 1'000)});
  EXPECT_TRUE(beaten_ceilings(fast, DType::kF32, sheet).empty());
}

// 20 runs that read 10 MB of weights, of which the cache may hold a megabyte each time.
RatedWork decodes(double ns) {
  RatedWork work;
  work.amounts.macs = {{DType::kF32, 100'000'000}};
  work.amounts.weight_bytes = {{DType::kF32, 200'000'000}};
  work.weight_bytes = 10'000'000;
  work.cache_bytes = 20 << 20;
  work.ns = ns;
  return work;
}

TEST(BeatenCeilings, OfInferenceCountWhatNoCacheHolds) {
  EXPECT_TRUE(beaten_ceilings("tg20", decodes(20e6), ceilings()).empty());
  const auto beaten = beaten_ceilings("tg20", decodes(10e6), ceilings());
  ASSERT_EQ(beaten.size(), 1u);
  EXPECT_EQ(beaten[0].str(), "tg20 reached 20.0 GB/s, above memory's bandwidth of 10.0 GB/s");
}

TEST(BeatenCeilings, OfInferenceCountGemmsOfOneType) {
  RatedWork work = decodes(1e9);
  work.amounts.macs = {{DType::kF32, 100'000'000'000}};
  ASSERT_EQ(beaten_ceilings("pp512", work, ceilings()).size(), 1u);
  EXPECT_FALSE(beaten_ceilings("pp512", work, ceilings())[0].is_memory);
  work.amounts.macs[DType::kI16] = 1;
  EXPECT_TRUE(beaten_ceilings("pp512", work, ceilings()).empty());
  work.amounts.macs = {{DType::kI16, 100'000'000'000}};  // these ceilings have no such peak
  EXPECT_TRUE(beaten_ceilings("pp512", work, ceilings()).empty());
}

}  // namespace
}  // namespace ridge::record
