// SPDX-License-Identifier: Apache-2.0
// turn_operands: a product of two operands across the depth reads one turned, and means the same.
#include <gtest/gtest.h>

#include "passes/decode_step.h"

namespace ridge::passes {
namespace {

// Gradients of two weights by one input whose tokens are in two axes, and a product along the
// depth.
Graph gradients() {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId x = b.input("x", {DType::kF32, {4, 3, 8}});
  ValueId dy = b.input("dy", {DType::kF32, {4, 3, 6}}),
          dz = b.input("dz", {DType::kF32, {4, 3, 5}});
  auto layer = b.scope("layer.0");
  graph.outputs = {ops::matmul(b, "btf,btd->fd", dy, x), ops::matmul(b, "btf,btd->fd", dz, x),
                   ops::matmul(b, "btd,fd->btf", x, b.parameter("weight", {DType::kF32, {7, 8}}))};
  return graph;
}

TEST(TurnOperands, CopiesAnOperandOnce) {
  Graph built = gradients();
  Graph after = try_pass(turn_operands_pass(), built, identity_load(built), GpuKernels());
  EXPECT_EQ(count(after, "copy"), 1);
  EXPECT_EQ(count(after, "matmul"), 3);
}

TEST(TurnOperands, AsksTheTarget) {
  EXPECT_EQ(count(run_pass(turn_operands_pass(), gradients()), "copy"), 0);
}

TEST(TurnOperands, IsOfTheLevelOfKernels) {
  EXPECT_FALSE(Selection("fused", "").has("turn_operands"));
  EXPECT_TRUE(Selection("kernels", "").has("turn_operands"));
}

}  // namespace
}  // namespace ridge::passes
