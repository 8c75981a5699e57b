// SPDX-License-Identifier: Apache-2.0
// Tests of group_products: GEMMs of one input with weights as a file stores them become one
// launch.
#include "passes/pass_trial.h"

namespace ridge::passes {
namespace {

// silu(x q) + x k + x v, and x k once more. The weights are stored in up to three types.
Graph three_products(DType v_type) {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId x = b.input("x", {DType::kF32, {4, 32}});
  auto layer = b.scope("layer.0");
  auto product = [&](const char* name, DType dtype) {
    return ops::matmul(b, "nd,fd->nf", x, b.parameter(name, {dtype, {8, 32}}));
  };
  ValueId q = product("q.weight", DType::kBF16), k = product("k.weight", DType::kF16);
  ValueId sum = ops::add(b, ops::unary(b, "silu", q), k);
  graph.outputs = {ops::add(b, sum, product("v.weight", v_type)), product("k.weight", DType::kF16)};
  return graph;
}

TEST(GroupProducts, MakesOneLaunchOfAll) {
  Graph after = try_pass(group_products_pass, three_products(DType::kBF16));
  EXPECT_EQ(count(after, "matmul"), 0);
  EXPECT_EQ(count(after, "quantized_matmul"), 1);
}

TEST(GroupProducts, LowersLaunchesAndBytes) {
  Graph graph = three_products(DType::kQ8_0);
  PlannedCost before = planned_cost(graph),
              after = planned_cost(run_pass(group_products_pass, graph));
  EXPECT_EQ(after.launches, before.launches - 3);
  EXPECT_LT(after.bytes, before.bytes);  // x is read once
}

TEST(GroupProducts, LeavesPlainAndLoneProductsAlone) {
  Graph graph = three_products(DType::kF32);
  Graph after = run_pass(group_products_pass, graph);
  EXPECT_EQ(count(after, "matmul"), 1);
  EXPECT_EQ(after.nodes.size(), graph.nodes.size() - 2);
  models::ForwardGraph forward = one_layer_forward();
  EXPECT_EQ(count(run_pass(group_products_pass, forward.graph), "quantized_matmul"), 0);
}

}  // namespace
}  // namespace ridge::passes
