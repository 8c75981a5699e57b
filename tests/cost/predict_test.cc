// SPDX-License-Identifier: Apache-2.0
// The time model for sizes without a measured sample nearby, and the sum of nodes' times.
#include "cost/predict.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backends/null/null_backend.h"
#include "cost/hardware.h"
#include "graph/builder.h"
#include "ops/registry.h"
#include "plan/targets.h"

namespace ridge::cost {
namespace {

std::vector<NodePrediction> predict(const Graph& graph, const Ceilings& ceilings) {
  auto target = backends::null::make_null_target();
  return predict_nodes(count(plan::plan(graph, *target)), ceilings);
}

// The compute time of 512 tokens times a block-quantized weight.
double compute_ns(const std::string& activations, const Ceilings& ceilings) {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId x = b.input("x", {DType::kF32, {512, 1024}}),
          w = b.parameter("w", {DType::kQ4_0, {1024, 1024}});
  graph.outputs = b.call_all("matmul_group", {x, w}, {{"activations", activations}});
  return predict(graph, ceilings).back().compute_ns;
}

TEST(Predict, StoredWeightsTakeTheRateOfWhatActivationsAreRoundedTo) {
  Ceilings c = ceilings_of(*find_hardware("h100"));
  c.parallel_threshold_bytes = 0;
  double bf16 = c.peak_flops_per_ns(DType::kBF16), f32 = c.peak_flops_per_ns(DType::kF32);
  ASSERT_GT(bf16, f32);
  double exact = compute_ns("f32", c);
  EXPECT_NEAR(exact / compute_ns("bf16", c), bf16 / f32, 1e-9 * bf16 / f32);
  EXPECT_EQ(compute_ns("i16", c), exact);  // not measured, so the fp32 peak holds
  ProductRates blocks;
  blocks.dtype = DType::kI16;
  blocks.peak_flops_per_ns = 4 * f32;
  c.products.push_back(blocks);
  EXPECT_NEAR(exact / compute_ns("i16", c), 4, 1e-9);
}

// Two pointwise kernels and a GEMM, one after the other.
TEST(Predict, OnAStreamAKernelBeginsOnceTheHostHasToldIt) {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId x = b.input("x", {DType::kF32, {512, 512}}), y = b.call("neg", {x}),
          product = b.call("matmul", {y, x}, {{"einsum", std::string("mk,kn->mn")}});
  graph.outputs = {b.call("neg", {product})};
  auto target = backends::null::make_null_target();
  ASSERT_FALSE(target->replays());
  CostedGraph costed = count(plan::plan(graph, *target));
  Ceilings c = ceilings_of(*find_hardware("h100"));
  std::vector<NodePrediction> nodes = predict_nodes(costed, c);
  auto run_ns = [&] { return predict_run_ns(costed, nodes, c); };
  c.stream_launch_ns = 0;
  EXPECT_NEAR(run_ns(), total_ns(nodes), 1e-6);
  c.stream_launch_ns = 1e9;  // far longer than any of the kernels
  for (ProductRates& rates : c.products) rates.stream_call_ns = 2e9;
  EXPECT_NEAR(run_ns(), 4e9 + nodes.back().ns, 1);
  costed.costs[1].launches = 3;  // copies of its operands are not GEMMs
  EXPECT_NEAR(run_ns(), 6e9 + nodes.back().ns, 1);
  c = at_launch_rate(c, 0.5);
  EXPECT_NEAR(run_ns(), 12e9 + nodes.back().ns, 1);
}

// Two GEMMs that do not wait for each other, and a sum that waits for both.
TEST(Predict, SideBySideKernelsShareWhatEachLeavesOfTheDevice) {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId x = b.input("x", {DType::kF32, {64, 64}});
  auto product = [&] { return b.call("matmul", {x, x}, {{"einsum", std::string("mk,kn->mn")}}); };
  ValueId first = product(), second = product();
  graph.outputs = {b.call("add", {first, second})};
  plan::GreedyTarget target(3);
  const CostedGraph costed = count(plan::plan(graph, target));
  Ceilings c = ceilings_of(*find_hardware("h100"));
  std::vector<NodePrediction> nodes(3);
  nodes[0].ns = 60, nodes[1].ns = 100, nodes[2].ns = 10;
  auto run_ns = [&](double part, double other_part) {
    nodes[0].limit_ns = part * nodes[0].ns, nodes[1].limit_ns = other_part * nodes[1].ns;
    return predict_run_ns(costed, nodes, c);
  };
  EXPECT_NEAR(run_ns(1, 1), 170, 1e-9);                  // each fills the device
  EXPECT_NEAR(run_ns(0, 0), 110, 1e-9);                  // neither needs any of it
  EXPECT_NEAR(run_ns(1. / 16, 1. / 16), 110, 1e-9);      // each needs half of it
  EXPECT_NEAR(run_ns(1, 1. / 16), 60 * 1.5 + 50, 1e-9);  // at 1.5 times the time while both run
}

TEST(Roof, IsTheLowestAboveTheWork) {
  Ceilings c;
  c.levels = {{"memory", int64_t{1} << 34, 25, 20, 0}};
  c.products.resize(1);
  c.products[0].peak_flops_per_ns = 100;
  c.fused_flops_per_ns = 30;
  const Work product{1000, 2000, 0}, pointwise{0, 2000, 0};
  auto expect_roof = [&](const Work& work, int64_t bytes, const char* name, double flops_per_ns) {
    const Roof found = roof(c, DType::kF32, work, bytes);
    EXPECT_EQ(found.name, name);
    EXPECT_DOUBLE_EQ(found.flops_per_ns, flops_per_ns);
  };
  expect_roof(product, 100, "f32 GEMM", 100);
  expect_roof(product, 1000, "memory", 40);  // 2 FLOPs per byte
  expect_roof(pointwise, 1000, "vector", 30);
  expect_roof(pointwise, 2000, "memory", 20);
  expect_roof(pointwise, 0, "vector", 30);
  c.fused_flops_per_ns = 0;  // unknown
  expect_roof(pointwise, 100, "f32 GEMM", 100);
}

}  // namespace
}  // namespace ridge::cost
