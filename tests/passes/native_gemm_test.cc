// SPDX-License-Identifier: Apache-2.0
// Tests of native_gemm: GEMMs that a native kernel supports get the attribute `native`, and results
// do not change.
#include <gtest/gtest.h>

#include "backends/cpu/native_gemm.h"
#include "backends/cpu/passes/passes.h"
#include "passes/decode_step.h"

namespace ridge::passes {
namespace {

namespace cpu = backends::cpu;
namespace cuda = backends::cuda;

TEST(NativeGemm, MarksWhatTheGpuTakes) {
  Graph built = perceptron();
  Graph after = try_pass(cuda::native_gemm_pass, built, identity_load(built), GpuKernels());
  for (const Node& node : after.nodes)
    EXPECT_EQ(node.attrs.flag("native"), node.op->name == "matmul") << node.op->name;
  EXPECT_EQ(count(after, "matmul"), 2);
}

TEST(NativeGemm, MarksWhatTheCpuTakes) {
  Graph built = perceptron();
  Graph after = run_pass(cpu::native_gemm_pass, built);
  for (const Node& node : after.nodes)
    EXPECT_EQ(node.attrs.flag("native"),
              node.op->name == "matmul" && cpu::has_native_gemm(CallTypes(after, node).call()))
        << node.op->name;
}

TEST(NativeGemm, LeavesPlansAlone) {
  Graph after = run_pass(cuda::native_gemm_pass, perceptron());
  for (const Node& node : after.nodes) EXPECT_FALSE(node.attrs.flag("native")) << node.op->name;
}

TEST(NativeGemm, IsOfTheLevelOfKernels) {
  EXPECT_FALSE(Selection("fused", "").has("native_gemm"));
  EXPECT_TRUE(Selection("kernels", "").has("native_gemm"));
  EXPECT_FALSE(Selection("compiled", "-native_gemm").has("native_gemm"));
}

}  // namespace
}  // namespace ridge::passes
