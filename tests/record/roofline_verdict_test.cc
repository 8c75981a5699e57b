// SPDX-License-Identifier: Apache-2.0
// The verdict of a small step, worked out by hand.
#include "record/beaten_ceilings.h"

#include <gtest/gtest.h>

#include "cost/made_up_ceilings.h"

namespace ridge::record {
namespace {

NodeRecord node(const char* op, Work work, int64_t bytes, int64_t ns) {
  NodeRecord record;
  record.op = op;
  record.calls = 1;
  record.work = work;
  record.read_bytes = bytes;
  record.time_ns = record.exclusive_ns = ns;
  record.samples_ns = {static_cast<double>(ns)};
  return record;
}

// Memory has 10 bytes/ns, GEMMs 100 FLOPs/ns, so they meet at 10 FLOPs per byte.
cost::Ceilings ceilings() { return cost::made_up_ceilings({{1 << 30, 10, 10}}, 100); }

TEST(RooflineVerdict, SumsTheTimeUnderEachRoof) {
  StepRecord step;
  step.nodes = {node("matmul", {500'000, 1'000'000, 0}, 1'000, 20'000),  // 10,000 at its roof
                node("matmul", {250'000, 500'000, 0}, 1'000, 6'000),     // 5,000
                node("rms_norm", {0, 1'000, 0}, 40'000, 5'000),          // 4,000
                node("copy", {}, 10'000, 4'000)};                        // 1,000, without FLOPs
  step.wall_ns = step.kernel_ns = 35'000;
  const RooflineVerdict verdict = roofline_verdict(step, DType::kF32, ceilings());
  ASSERT_EQ(verdict.roofs.size(), 2u);
  EXPECT_EQ(verdict.roofs[0].roof, "f32 GEMM");
  EXPECT_FALSE(verdict.roofs[0].is_memory);
  EXPECT_EQ(verdict.roofs[0].time_ns, 26'000);
  EXPECT_DOUBLE_EQ(verdict.roofs[0].reached(), 15.0 / 26);
  EXPECT_EQ(verdict.roofs[1].roof, "memory");
  EXPECT_TRUE(verdict.roofs[1].is_memory);
  EXPECT_DOUBLE_EQ(verdict.roofs[1].per_ns, 10);
  EXPECT_EQ(verdict.roofs[1].time_ns, 9'000);
  EXPECT_DOUBLE_EQ(verdict.roofs[1].reached(), 5.0 / 9);
  EXPECT_EQ(verdict.time_ns, 35'000);
  EXPECT_DOUBLE_EQ(verdict.reached(), 20.0 / 35);
  EXPECT_EQ(verdict.worst, "matmul");
  EXPECT_DOUBLE_EQ(verdict.worst_ns, 11'000);
}

TEST(RooflineVerdict, OpsFasterThanTheirRoofHaveNoTimeBeyondIt) {
  StepRecord step;
  step.nodes = {node("copy", {}, 10'000, 500)};
  const RooflineVerdict verdict = roofline_verdict(step, DType::kF32, ceilings());
  EXPECT_DOUBLE_EQ(verdict.reached(), 2);
  EXPECT_EQ(verdict.worst, "");
  EXPECT_TRUE(roofline_verdict({}, DType::kF32, ceilings()).roofs.empty());
}

}  // namespace
}  // namespace ridge::record
