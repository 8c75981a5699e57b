// SPDX-License-Identifier: Apache-2.0
// Tests of fuse_softmax: the scale, the mask and the softmax of scores over a KV cache become one
// kernel, unless something else reads what lies between them.
#include "passes/pass_trial.h"

namespace ridge::passes {
namespace {

class ScaledScores : public testing::Test {
 protected:
  // The softmax of scores [3,2,20] of cells in a ring of 24.
  void build(int64_t window = 0, double factor = 0.125) {
    const ValueId scores = b.input("scores", {DType::kF32, {3, 2, 20}}),
                  positions = b.input("positions", {DType::kI32, {3}});
    scaled = ops::scale(b, scores, factor);
    masked =
        b.call("cached_mask", {scaled, positions}, {{"window", window}, {"ring", int64_t{24}}});
    graph.outputs = {b.call("softmax", {masked})};
  }
  Graph graph;
  Builder b{graph, ops::table()};
  ValueId scaled = kNoValue, masked = kNoValue;
};

TEST_F(ScaledScores, BecomeOneKernel) {
  build();
  const Graph after = try_pass(fuse_softmax_pass, graph);
  ASSERT_EQ(after.nodes.size(), 1u);
  EXPECT_EQ(after.nodes[0].op->name, "cached_softmax");
  EXPECT_EQ(after.nodes[0].attrs.real("scale"), 0.125);
  EXPECT_EQ(after.nodes[0].from.size(), 3u);
}

TEST_F(ScaledScores, AreReadAndWrittenOnce) {
  build();
  const Graph after = run_pass(fuse_softmax_pass, graph);
  const PlannedCost was = planned_cost(graph), is = planned_cost(after);
  constexpr int64_t kScores = 3 * 2 * 20 * 4, kPositions = 3 * 4;
  EXPECT_EQ(was.launches, 3);
  EXPECT_EQ(was.bytes, 6 * kScores + kPositions);
  EXPECT_EQ(is.launches, 1);
  EXPECT_EQ(is.bytes, 2 * kScores + kPositions);
}

TEST_F(ScaledScores, KeepTheirWindow) {
  build(3);
  const Graph after = run_pass(fuse_softmax_pass, graph);
  EXPECT_EQ(after.nodes[0].attrs.integer("window"), 3);
  expect_same_meaning(graph, after, {});
}

TEST_F(ScaledScores, StayForOtherReaders) {
  build();
  graph.outputs.push_back(masked);
  EXPECT_EQ(count(run_pass(fuse_softmax_pass, graph), "cached_softmax"), 0);
}

// The largest score would become the least.
TEST_F(ScaledScores, AreNotFusedWithANegativeScale) {
  build(0, -1);
  EXPECT_EQ(count(run_pass(fuse_softmax_pass, graph), "cached_softmax"), 0);
}

}  // namespace
}  // namespace ridge::passes
