// SPDX-License-Identifier: Apache-2.0
// Tests of recompute: the backward pass computes a layer's activations again.
#include "passes/pass_trial.h"

namespace ridge::passes {
namespace {

// Two layers, so that the output of the first is the input of the second.
Graph two_layers() {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId x = b.input("x", {DType::kF32, {4, 8}});
  for (int l = 0; l < 2; ++l) {
    auto layer = b.scope(fmt::format("layer.{}", l));
    ValueId w = b.parameter(fmt::format("w{}", l), {DType::kF32, {8, 8}});
    x = ops::unary(b, "tanh", ops::unary(b, "exp", ops::matmul(b, "nd,fd->nf", x, w)));
  }
  graph.outputs = {
      ops::reshape(b, ops::reduce_sum(b, ops::unary(b, "square", x), {0, 1}), Shape{})};
  return graph;
}

TEST(Recompute, MakesALayersActivationsAgain) {
  Graph before = with_step(two_layers());
  Graph after = try_pass(recompute_pass, before);
  // The output of a layer is kept. Values inside it are computed again, once for all their readers.
  EXPECT_EQ(count(after, "exp"), count(before, "exp") + 2);
  EXPECT_EQ(count(after, "matmul"), count(before, "matmul") + 2);
}

TEST(Recompute, NothingInsideALayerLivesOnToTheBackwardPass) {
  Graph after = run_pass(recompute_pass, with_step(two_layers()));
  for (const Node& node : after.nodes) {
    if (node.phase != Phase::kBackward) continue;
    for (ValueId input : node.inputs) {
      const Node* producer = after.producer(input);
      if (producer == nullptr || producer->phase != Phase::kForward) continue;
      EXPECT_NE(producer->scope, node.scope) << print(after, node);
    }
  }
}

TEST(Recompute, OfTheFirstLayersKeepsTheOthers) {
  const Graph before = with_step(two_layers());
  LoadGraph load = identity_load(before);
  PassContext context{ops::table(), target(), load};
  context.number = 1;
  const Graph after = run_recompute(before, context);
  EXPECT_EQ(count(after, "exp"), count(before, "exp") + 1);
  for (const Node& node : after.nodes) {
    if (node.phase != Phase::kBackward || node.op->name != "exp") continue;
    EXPECT_EQ(node.scope, "layer.0");
  }
}

TEST(Recompute, MoreLayersLowerThePeakFurther) {
  const int64_t none = planned_step("compiled", "").peak_bytes;
  const int64_t one = planned_step("compiled", "+recompute=1").peak_bytes;
  const int64_t all = planned_step("compiled", "+recompute").peak_bytes;
  EXPECT_LT(one, none);
  EXPECT_LE(all, one);
  EXPECT_EQ(planned_step("compiled", "+recompute=2").peak_bytes, all) << "the model has two";
}

TEST(Recompute, LowersThePeakForMoreWork) {
  EXPECT_FALSE(recompute_pass.trade.empty());
  for (const char* level : {"baseline", "compiled"}) {
    PlannedCost before = planned_step(level, ""), after = planned_step(level, "+recompute");
    EXPECT_LT(after.peak_bytes, before.peak_bytes) << level;
    EXPECT_GT(after.launches, before.launches) << level;
  }
}

}  // namespace
}  // namespace ridge::passes
