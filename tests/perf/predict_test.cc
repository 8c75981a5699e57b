// SPDX-License-Identifier: Apache-2.0
// The time model where no measured sample is near: what a product's rate is taken from.
#include "perf/predict.h"

#include <gtest/gtest.h>

#include "backends/null/null_backend.h"
#include "graph/builder.h"
#include "ops/registry.h"
#include "perf/hardware.h"

namespace ridge::perf {
namespace {

// The time of the arithmetic of 512 tokens times a weight in blocks.
double compute_ns(const std::string& activations, const Ceilings& ceilings) {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId x = b.input("x", {DType::kF32, {512, 1024}}),
          w = b.parameter("w", {DType::kQ4_0, {1024, 1024}});
  graph.outputs = b.call_all("matmul_group", {x, w}, {{"activations", activations}});
  auto target = backends::null::make_null_target();
  std::vector<Place> places = perf::places(graph, target.get());
  MemoryPlan plan = plan_memory(graph, places, *target);
  return predict_nodes(graph, places, plan, node_costs(graph, places, target.get()), ceilings)
      .back()
      .compute_ns;
}

TEST(Predict, StoredWeightsTakeTheRateOfWhatActivationsAreRoundedTo) {
  Ceilings c = ceilings_of(*find_hardware("h100"));
  c.parallel_threshold_bytes = 0;
  double bf16 = c.peak_flops_per_ns(DType::kBF16), f32 = c.peak_flops_per_ns(DType::kF32);
  ASSERT_GT(bf16, f32);
  double exact = compute_ns("f32", c);
  EXPECT_NEAR(exact / compute_ns("bf16", c), bf16 / f32, 1e-9 * bf16 / f32);
  EXPECT_EQ(compute_ns("i8", c), exact);  // not measured: the fp32 peak holds
  ProductRates blocks;
  blocks.dtype = DType::kI8;
  blocks.peak_flops_per_ns = 4 * f32;
  c.products.push_back(blocks);
  EXPECT_NEAR(exact / compute_ns("i8", c), 4, 1e-9);
}

}  // namespace
}  // namespace ridge::perf
