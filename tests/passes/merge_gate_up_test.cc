// SPDX-License-Identifier: Apache-2.0
// Tests of merge_gate_up: gate and up become one product.
#include "passes/pass_trial.h"

namespace ridge::passes {
namespace {

TEST(MergeGateUp, MakesOneProductOfTwo) {
  models::ForwardGraph forward = one_layer_forward();
  Graph after = try_pass(merge_gate_up_pass, forward.graph, forward.load);
  EXPECT_EQ(count(after, "matmul"), count(forward.graph, "matmul") - 1);
  EXPECT_EQ(after.shape(after.find("model.layers.0.mlp.gate_up_proj.weight")), (Shape{48, 16}));
}

TEST(MergeGateUp, LowersLaunchesAndBytes) { expect_lower_step("merge_gate_up"); }

// glu(x w, x w): both products read the same weight, which cannot be stacked on itself.
TEST(MergeGateUp, LeavesASharedWeightAlone) {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId x = b.input("x", {DType::kF32, {4, 8}}),
          w = b.parameter("layer.gate.weight", {DType::kF32, {6, 8}});
  ValueId gate = ops::matmul(b, "nd,fd->nf", x, w), up = ops::matmul(b, "nd,fd->nf", x, w);
  graph.outputs = {b.call("glu", {gate, up}, {{"activation", std::string("silu")}})};
  EXPECT_EQ(print(run_pass(merge_gate_up_pass, graph)), print(graph));
}

}  // namespace
}  // namespace ridge::passes
