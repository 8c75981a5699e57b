// SPDX-License-Identifier: Apache-2.0
// Tests of batch_invariant: what has forms for few and for many tokens gets one.
#include "backends/cpu/passes/passes.h"
#include "passes/pass_trial.h"

namespace ridge::passes {
namespace {

namespace cpu = backends::cpu;

Graph products(int64_t tokens, DType activations = DType::kF32) {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId x = b.input("x", {activations, {tokens, 256}});
  auto layer = b.scope("layer.0");
  ValueId up = ops::matmul(b, "nd,fd->nf", x, b.parameter("up.weight", {activations, {256, 256}}));
  if (activations == DType::kF32)
    up = ops::matmul(b, "nd,fd->nf", up, b.parameter("down.weight", {DType::kQ4_K, {256, 256}}));
  graph.outputs = {up};
  return graph;
}

TEST(BatchInvariant, GivesProductsOneForm) {
  const Graph before = run_pass(cpu::quantize_activations_pass, products(4)),
              after = run_pass(cpu::batch_invariant_pass, before);
  verify(after);
  verify_origins(before, after);
  expect_golden("batch_invariant.before.txt", print(before));
  expect_golden("batch_invariant.after.txt", print(after));
  const Graph many =
      run_pass(cpu::batch_invariant_pass, run_pass(cpu::quantize_activations_pass, products(100)));
  ASSERT_EQ(many.nodes.size(), after.nodes.size());
  for (size_t i = 0; i < many.nodes.size(); ++i)
    EXPECT_EQ(many.nodes[i].attrs, after.nodes[i].attrs) << i;
}

TEST(BatchInvariant, RefusesTheLibrarysProducts) {
  EXPECT_THROW(run_pass(cpu::batch_invariant_pass, products(4, DType::kBF16)), Error);
}

}  // namespace
}  // namespace ridge::passes
