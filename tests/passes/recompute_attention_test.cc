// SPDX-License-Identifier: Apache-2.0
// Tests of recompute_attention: the backward pass computes the scores of attention again.
#include "passes/pass_trial.h"

namespace ridge::passes {
namespace {

// A projection, attention over two sequences of three tokens, and the sum of squares.
Graph small_attention() {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId x = b.input("x", {DType::kF32, {6, 4}});
  auto layer = b.scope("layer.0");
  auto projected = [&](const char* name) {
    ValueId weight = b.parameter(name, {DType::kF32, {4, 4}});
    return ops::reshape(b, ops::matmul(b, "nd,fd->nf", x, weight), {6, 2, 2});
  };
  ValueId q = projected("q"), k = projected("k"), v = projected("v");
  ValueId mixed =
      b.call("attention", {q, k, v}, {{"sequence", int64_t{3}}, {"causal", true}, {"scale", 0.5}});
  ValueId out = ops::matmul(b, "nd,fd->nf", ops::reshape(b, mixed, {6, 4}),
                            b.parameter("o", {DType::kF32, {4, 4}}));
  ValueId square = ops::unary(b, "square", out);
  graph.outputs = {ops::reshape(b, ops::reduce_sum(b, square, {0, 1}), Shape{})};
  return run_pass(expand_pass, graph);
}

TEST(RecomputeAttention, MakesTheScoresAgain) {
  const Graph before = with_step(small_attention());
  const Graph after = try_pass(recompute_attention_pass, before);
  // The scores again, but neither the product with v, whose result is kept, nor the projections.
  EXPECT_EQ(count(after, "matmul"), count(before, "matmul") + 1);
  EXPECT_EQ(count(after, "softmax"), count(before, "softmax") + 1);
  for (const Node& node : after.nodes) {
    if (node.phase != Phase::kBackward) continue;
    for (ValueId input : node.inputs) {
      const Node* producer = after.producer(input);
      if (producer == nullptr || producer->phase != Phase::kForward) continue;
      EXPECT_LT(after.shape(input).elements(), 2 * 2 * 3 * 3) << print(after, node);
    }
  }
}

TEST(RecomputeAttention, LowersThePeakOfStoredScoresOnly) {
  EXPECT_FALSE(recompute_attention_pass.trade.empty());
  const PlannedCost before = planned_step("baseline", ""),
                    after = planned_step("baseline", "+recompute_attention"),
                    layers = planned_step("baseline", "+recompute");
  EXPECT_LT(after.peak_bytes, before.peak_bytes);
  EXPECT_LT(layers.peak_bytes, after.peak_bytes);
  EXPECT_GT(after.launches, before.launches);
  EXPECT_LT(after.launches, layers.launches);
  // Flash attention stores no scores.
  EXPECT_EQ(planned_step("compiled", "+recompute_attention").peak_bytes,
            planned_step("compiled", "").peak_bytes);
}

}  // namespace
}  // namespace ridge::passes
