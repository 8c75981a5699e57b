// SPDX-License-Identifier: Apache-2.0
// Tests of recompute_nested: segments of layers are computed again, then each of their layers.
#include <set>

#include "passes/pass_trial.h"

namespace ridge::passes {
namespace {

Graph layers(int count) {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId x = b.input("x", {DType::kF32, {4, 8}});
  for (int l = 0; l < count; ++l) {
    auto layer = b.scope(fmt::format("layer.{}", l));
    ValueId w = b.parameter(fmt::format("w{}", l), {DType::kF32, {8, 8}});
    x = ops::unary(b, "tanh", ops::unary(b, "exp", ops::matmul(b, "nd,fd->nf", x, w)));
  }
  graph.outputs = {
      ops::reshape(b, ops::reduce_sum(b, ops::unary(b, "square", x), {0, 1}), Shape{})};
  return graph;
}

// The layers whose results from the forward pass a backward pass reads.
std::set<std::string> kept(const Graph& graph) {
  std::set<std::string> found;
  for (const Node& node : graph.nodes) {
    if (node.phase != Phase::kBackward) continue;
    for (ValueId input : node.inputs) {
      const Node* producer = graph.producer(input);
      if (producer != nullptr && producer->phase == Phase::kForward) found.insert(producer->scope);
    }
  }
  return found;
}

TEST(RecomputeNested, MakesSegmentsAndThenTheirLayersAgain) {
  const Graph before = with_step(layers(4));
  const Graph after = try_pass(recompute_nested_pass, before);
  // Segments of two layers: the first layer of each is computed twice more, the second once.
  EXPECT_EQ(count(after, "exp"), count(before, "exp") + 4 + 2);
}

// The gradient reads the inputs of segments and the last layer's output, nothing else.
TEST(RecomputeNested, KeepsTheInputsOfSegments) {
  const Graph before = with_step(layers(9));
  const Graph after = run_pass(recompute_nested_pass, before);
  EXPECT_EQ(kept(after), (std::set<std::string>{"layer.2", "layer.5", "layer.8"}));
  EXPECT_EQ(kept(run_pass(recompute_pass, before)).size(), 9u);
  EXPECT_EQ(count(after, "exp"), count(before, "exp") + 9 + 6);
}

TEST(RecomputeNested, LowersThePeakForMoreWork) {
  EXPECT_FALSE(recompute_nested_pass.trade.empty());
  for (const char* level : {"baseline", "compiled"}) {
    const PlannedCost none = planned_step(level, ""),
                      nested = planned_step(level, "+recompute_nested");
    EXPECT_LT(nested.peak_bytes, none.peak_bytes) << level;
    EXPECT_GT(nested.launches, none.launches) << level;
  }
}

}  // namespace
}  // namespace ridge::passes
