// SPDX-License-Identifier: Apache-2.0
// Tests that split_activations yields an activation's operations, with the same results and FLOPs.
#include "passes/pass_trial.h"

namespace ridge::passes {
namespace {

Graph activations() {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId x = b.input("x", {DType::kF32, {4, 6}});
  graph.outputs = {ops::unary(b, "gelu_tanh", x), ops::unary(b, "silu", x)};
  return graph;
}

TEST(SplitActivations, MakesEightKernelsOfAGeluAndFourOfASilu) {
  Graph before = activations();
  Graph after = try_pass(split_activations_pass, before);
  EXPECT_EQ(count(after, "gelu_tanh") + count(after, "silu"), 0);
  EXPECT_EQ(after.nodes.size(), 12u);
  auto flops = [](const Graph& graph) {
    return cost::total(cost::count(plan::plan(graph, target())).costs).work.flops;
  };
  EXPECT_EQ(flops(after), flops(before));
  EXPECT_FALSE(split_activations_pass.trade.empty());
}

}  // namespace
}  // namespace ridge::passes
