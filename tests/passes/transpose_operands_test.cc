// SPDX-License-Identifier: Apache-2.0
// Tests of transpose_operands: a GEMM with both operands strided along the depth (K) reads one of
// them transposed, with the same result.
#include <gtest/gtest.h>

#include "passes/decode_step.h"

namespace ridge::passes {
namespace {

namespace cuda = backends::cuda;

// Four GEMMs in the form of weight gradients: the second reads the first's dy, the third its x, and
// the fourth its result. The last GEMM reads its operands along the depth.
Graph gradients() {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId x = b.input("x", {DType::kF32, {12, 8}});
  ValueId dy = b.input("dy", {DType::kF32, {12, 6}}), dz = b.input("dz", {DType::kF32, {12, 5}});
  auto layer = b.scope("layer.0");
  ValueId first = ops::matmul(b, "nf,nd->fd", dy, x);
  graph.outputs = {first, ops::matmul(b, "nf,nd->fd", dz, dy), ops::matmul(b, "nf,nd->fd", dz, x),
                   ops::matmul(b, "fd,fe->de", first, ops::unary(b, "silu", first)),
                   ops::matmul(b, "nd,fd->nf", x, b.parameter("weight", {DType::kF32, {7, 8}}))};
  return graph;
}

TEST(TransposeOperands, TransposesEachOnceAndTwoTogether) {
  Graph built = gradients();
  Graph after = try_pass(cuda::transpose_operands_pass, built, identity_load(built), GpuKernels());
  EXPECT_EQ(count(after, "transpose_multi"), 2);
  EXPECT_EQ(count(after, "matmul"), 5);
}

TEST(TransposeOperands, LeavesPlansAlone) {
  EXPECT_EQ(count(run_pass(cuda::transpose_operands_pass, gradients()), "transpose_multi"), 0);
}

TEST(TransposeOperands, IsOfTheLevelOfKernels) {
  EXPECT_FALSE(Selection("fused", "").has("transpose_operands"));
  EXPECT_TRUE(Selection("kernels", "").has("transpose_operands"));
}

}  // namespace
}  // namespace ridge::passes
