// SPDX-License-Identifier: Apache-2.0
// Tests of autocast_f16: types change, results do not; master weights stay fp32.
#include "passes/pass_trial.h"

namespace ridge::passes {
namespace {

TEST(AutocastF16, NarrowsActivationsAndProducts) {
  expect_narrowed(DType::kF16, autocast_f16_pass);
  EXPECT_FALSE(autocast_f16_pass.trade.empty());
  EXPECT_LT(planned_step("compiled", "+autocast_f16").bytes, planned_step("compiled", "").bytes);
}

TEST(AutocastF16, RefusesWeightsInBf16) {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId x = b.input("x", {DType::kF32, {4, 8}}), w = b.parameter("w", {DType::kBF16, {8, 8}});
  graph.outputs = {ops::matmul(b, "nd,fd->nf", x, w)};
  const auto load = std::make_unique<LoadGraph>(identity_load(graph));
  EXPECT_THROW(run_pass(autocast_f16_pass, graph, *load), Error);
}

}  // namespace
}  // namespace ridge::passes
