// SPDX-License-Identifier: Apache-2.0
// Tests of merge_qkv: q, k and v become one product, or are left alone.
#include "passes/pass_trial.h"

namespace ridge::passes {
namespace {

TEST(MergeQkv, MakesOneProductOfThree) {
  models::ForwardGraph forward = one_layer_forward();
  Graph after = try_pass(merge_qkv_pass, forward.graph, forward.load);
  EXPECT_EQ(count(after, "matmul"), count(forward.graph, "matmul") - 2);
  EXPECT_EQ(after.find("model.layers.0.self_attn.q_proj.weight"), kNoValue);
  EXPECT_EQ(after.shape(after.find("model.layers.0.self_attn.qkv_proj.weight")), (Shape{32, 16}));
}

TEST(MergeQkv, LowersLaunchesAndBytes) { expect_lower_step("merge_qkv"); }

// The load graph concatenates the file's weights to the stacked weight.
TEST(MergeQkv, TellsTheLoadGraphWhereTheWeightComesFrom) {
  models::ForwardGraph forward = one_layer_forward();
  run_pass(merge_qkv_pass, forward.graph, forward.load);
  ValueId merged = forward.load.stored.at("model.layers.0.self_attn.qkv_proj.weight");
  const Node* join = forward.load.graph.producer(merged);
  ASSERT_NE(join, nullptr);
  EXPECT_EQ(join->op->name, "concat");
  std::vector<std::string> parts;
  for (ValueId part : join->inputs) parts.push_back(forward.load.graph.value(part).name);
  EXPECT_EQ(parts, (std::vector<std::string>{"model.layers.0.self_attn.q_proj.weight",
                                             "model.layers.0.self_attn.k_proj.weight",
                                             "model.layers.0.self_attn.v_proj.weight"}));
  EXPECT_FALSE(forward.load.stored.contains("model.layers.0.self_attn.k_proj.weight"));
}

// A weight that something else reads must not change.
TEST(MergeQkv, LeavesSharedWeightsAlone) {
  models::ForwardGraph forward = one_layer_forward();
  Builder b(forward.graph, ops::table());
  ValueId k = forward.graph.find("model.layers.0.self_attn.k_proj.weight");
  forward.graph.outputs.push_back(ops::unary(b, "square", k));
  Graph after = run_pass(merge_qkv_pass, forward.graph, forward.load);
  EXPECT_EQ(count(after, "matmul"), count(forward.graph, "matmul"));
}

TEST(MergeQkv, LeavesProductsOfDifferentInputsAlone) {
  Graph graph;
  Builder b(graph, ops::table());
  auto heads = [&](const char* name, ValueId x) {
    ValueId w = b.parameter(std::string("layer.") + name + ".weight", {DType::kF32, {16, 16}});
    return ops::reshape(b, ops::matmul(b, "nd,fd->nf", x, w), {4, 2, 8});
  };
  ValueId x = b.input("x", {DType::kF32, {4, 16}}), y = b.input("y", {DType::kF32, {4, 16}});
  graph.outputs = {b.call("attention", {heads("q", x), heads("k", y), heads("v", y)},
                          {{"sequence", int64_t{4}}, {"causal", true}, {"scale", 0.3}})};
  Graph after = run_pass(merge_qkv_pass, graph);
  EXPECT_EQ(count(after, "matmul"), 3);
}

}  // namespace
}  // namespace ridge::passes
