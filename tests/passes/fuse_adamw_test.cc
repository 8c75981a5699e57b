// SPDX-License-Identifier: Apache-2.0
// Tests of fuse_adamw: all updates run in one launch, which also writes the bf16 copies that the
// next step reads.
#include "passes/pass_trial.h"

namespace ridge::passes {
namespace {

Graph cast_step() { return with_step(run_pass(autocast_bf16_pass, perceptron())); }

TEST(FuseAdamw, UpdatesAllTensorsInOneLaunch) {
  Graph before = cast_step();
  EXPECT_EQ(count(before, "adamw"), 2);
  Graph after = try_pass(fuse_adamw_pass, before);
  EXPECT_EQ(count(after, "adamw"), 0);
  EXPECT_EQ(count(after, "adamw_multi"), 1);
}

TEST(FuseAdamw, WritesTheCopiesThatProductsRead) {
  Graph before = cast_step();
  LoadGraph load = identity_load(before);
  Graph after = run_pass(fuse_adamw_pass, before, load);
  ValueId copy = after.find("up.weight.bf16");
  ASSERT_NE(copy, kNoValue);
  EXPECT_EQ(after.type(copy).dtype, DType::kBF16);
  EXPECT_EQ(after.value(copy).storage, Storage::kParameter);
  EXPECT_TRUE(load.stored.contains("up.weight.bf16"));
  // No weight is cast any more.
  for (const Node& node : after.nodes) {
    if (node.op->name != "cast") continue;
    const Value& from = after.value(node.inputs[0]);
    EXPECT_FALSE(from.storage == Storage::kParameter && from.producer == kNoNode)
        << print(after, node);
  }
}

TEST(FuseAdamw, LowersLaunches) {
  PlannedCost before = planned_step("baseline", ""),
              after = planned_step("baseline", "+fuse_adamw");
  EXPECT_LT(after.launches, before.launches);
  before = planned_step("baseline", "+autocast_bf16"),
  after = planned_step("baseline", "+autocast_bf16,+fuse_adamw");
  EXPECT_LT(after.launches, before.launches);
  EXPECT_LT(after.bytes, before.bytes) << "casts of weights are gone";
}

TEST(FuseAdamw, CarriesClippingAndSettings) {
  train::OptimizerOptions options;
  options.clip_norm = 0.5;
  options.beta1 = 0.8;
  Graph before = with_step(perceptron(), options);
  Graph after = run_pass(fuse_adamw_pass, before);
  ASSERT_EQ(count(after, "adamw_multi"), 1);
  for (const Node& node : after.nodes) {
    if (node.op->name != "adamw_multi") continue;
    EXPECT_TRUE(node.attrs.flag("clip"));
    EXPECT_EQ(node.attrs.real("beta1"), 0.8);
  }
  expect_same_meaning(before, after, identity_load(before));
}

TEST(FuseAdamw, LeavesASingleTensorAlone) {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId w = b.parameter("w", {DType::kF32, {4}});
  graph.outputs = {ops::reshape(b, ops::reduce_sum(b, ops::unary(b, "square", w), {0}), Shape{})};
  Graph before = with_step(graph);
  EXPECT_EQ(print(run_pass(fuse_adamw_pass, before)), print(before));
}

}  // namespace
}  // namespace ridge::passes
