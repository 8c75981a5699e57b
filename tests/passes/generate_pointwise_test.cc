// SPDX-License-Identifier: Apache-2.0
// Tests of generate_pointwise: clusters of pointwise nodes and their limits. Random graphs:
// tests/backends/op_cluster_test.cc.
#include "passes/pass_trial.h"

namespace ridge::passes {
namespace {

TEST(GeneratePointwise, MakesOneKernelOfACluster) {
  Graph before = with_step(perceptron());
  Graph after = try_pass(generate_pointwise_pass, before);
  EXPECT_GE(count(after, "generated_pointwise"), 1);
  EXPECT_LT(after.nodes.size(), before.nodes.size());
}

TEST(GeneratePointwise, LowersLaunchesAndBytes) {
  for (const char* level : {"baseline", "fused", "kernels"}) {
    PlannedCost before = planned_step(level, ""),
                after = planned_step(level, "+generate_pointwise");
    EXPECT_LE(after.launches, before.launches) << level;
    EXPECT_LE(after.bytes, before.bytes) << level;
  }
  EXPECT_LT(planned_step("fused", "+generate_pointwise").launches,
            planned_step("fused", "").launches);
}

class Clusters : public testing::Test {
 protected:
  ValueId input(const char* name, Shape shape = {4, 8}) {
    return b.input(name, {DType::kF32, shape});
  }
  Graph run() {
    Graph after = run_pass(generate_pointwise_pass, graph);
    verify(after);
    expect_same_meaning(graph, after, {});
    return after;
  }
  Graph graph;
  Builder b{graph, ops::table()};
};

TEST_F(Clusters, ASingleNodeStaysWhatItIs) {
  graph.outputs = {ops::unary(b, "tanh", input("x"))};
  EXPECT_EQ(print(run()), print(graph));
}

TEST_F(Clusters, EndAtAnotherShape) {
  ValueId x = ops::unary(b, "exp", ops::unary(b, "tanh", input("x")));
  ValueId part = ops::slice(b, x, 0, 0, 2);
  graph.outputs = {ops::unary(b, "exp", ops::unary(b, "neg", part))};
  EXPECT_EQ(count(run(), "generated_pointwise"), 2);
}

TEST_F(Clusters, EndAtAnotherPhase) {
  ValueId x = ops::unary(b, "exp", ops::unary(b, "tanh", input("x")));
  b.set_phase(Phase::kBackward);
  graph.outputs = {ops::unary(b, "exp", ops::unary(b, "neg", x))};
  EXPECT_EQ(count(run(), "generated_pointwise"), 2);
}

// The kernel runs in place of the cluster's last node. A reader between the cluster's nodes would
// need a value before the kernel makes it.
TEST_F(Clusters, AreNotDrawnAcrossAReader) {
  ValueId x = ops::unary(b, "tanh", input("x"));
  ValueId sums = ops::reduce_sum(b, x, {1});
  ValueId scaled = ops::mul(b, x, ops::broadcast(b, sums, {4, 8}));
  graph.outputs = {ops::unary(b, "exp", scaled)};
  Graph after = run();
  EXPECT_EQ(count(after, "tanh"), 1);
  EXPECT_EQ(count(after, "generated_pointwise"), 1);
}

// tanh(x)^2 + exp(x)^2: the sum has an operand of each branch.
TEST_F(Clusters, BecomeOneWhereBranchesMeet) {
  ValueId x = input("x", {1000000});
  ValueId left = ops::unary(b, "square", ops::unary(b, "tanh", x));
  ValueId right = ops::unary(b, "square", ops::unary(b, "exp", x));
  graph.outputs = {ops::add(b, left, right)};
  Graph after = run_pass(generate_pointwise_pass, graph);
  verify(after);
  ASSERT_EQ(after.nodes.size(), 1u);
  EXPECT_EQ(after.nodes[0].inputs.size(), 1u);
}

// 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), as a course writes it.
TEST_F(Clusters, HoldTheTanhGeluOfSingleOperations) {
  ValueId x = input("x");
  ValueId cube = ops::mul(b, ops::mul(b, x, x), x);
  ValueId inner = ops::scale(b, ops::add(b, x, ops::scale(b, cube, 0.044715)), 0.79788456);
  ValueId half = ops::scale(b, x, 0.5);
  ValueId gate = ops::unary(b, "tanh", inner);
  graph.outputs = {ops::mul(b, half, b.call("add_scalar", {gate}, {{"parameter", 1.0}}))};
  Graph after = run();
  ASSERT_EQ(after.nodes.size(), 1u);
  EXPECT_EQ(after.nodes[0].inputs.size(), 1u);
}

// The left branch is read by a sum before the branches meet.
TEST_F(Clusters, DoNotMeetAcrossAReader) {
  ValueId left = ops::unary(b, "square", ops::unary(b, "tanh", input("x")));
  ValueId sums = ops::broadcast(b, ops::reduce_sum(b, left, {1}), {4, 8});
  ValueId right = ops::unary(b, "square", ops::unary(b, "exp", sums));
  graph.outputs = {ops::add(b, left, right)};
  EXPECT_EQ(count(run(), "generated_pointwise"), 2);
}

// Twenty nodes and twenty nodes are too many for one kernel; the sum stays with one of them.
TEST_F(Clusters, StayTwoWhereTheyAreTooLargeTogether) {
  ValueId left = input("x"), right = input("y");
  for (int i = 0; i < 20; ++i) left = ops::unary(b, "tanh", left);
  for (int i = 0; i < 20; ++i) right = ops::unary(b, "tanh", right);
  graph.outputs = {ops::add(b, left, right)};
  EXPECT_EQ(count(run(), "generated_pointwise"), 2);
}

TEST_F(Clusters, HoldAtMostThirtyTwoNodes) {
  ValueId x = input("x");
  for (int i = 0; i < 70; ++i) x = ops::unary(b, "tanh", x);
  graph.outputs = {x};
  Graph after = run();
  EXPECT_EQ(count(after, "generated_pointwise"), 3);
}

TEST_F(Clusters, ThatNobodyReadsFallAway) {
  ValueId x = input("x");
  ops::unary(b, "exp", ops::unary(b, "tanh", x));
  graph.outputs = {ops::unary(b, "neg", x)};
  EXPECT_EQ(run().nodes.size(), 1u);
}

}  // namespace
}  // namespace ridge::passes
