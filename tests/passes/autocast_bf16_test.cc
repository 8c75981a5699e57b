// SPDX-License-Identifier: Apache-2.0
// Tests of autocast_bf16: types change, results do not; master weights stay fp32.
#include "passes/pass_trial.h"

namespace ridge::passes {
namespace {

TEST(AutocastBf16, NarrowsActivationsAndProducts) {
  expect_narrowed(DType::kBF16, autocast_bf16_pass);
}

TEST(AutocastBf16, CastsAWeightOnceHoweverOftenItIsRead) {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId x = b.input("x", {DType::kF32, {4, 8}}), w = b.parameter("w", {DType::kF32, {8, 8}});
  ValueId y = ops::matmul(b, "nd,fd->nf", x, w);
  graph.outputs = {ops::matmul(b, "nd,fd->nf", y, w)};
  Graph graph_after =
      run_pass(autocast_bf16_pass, graph, *std::make_unique<LoadGraph>(identity_load(graph)));
  EXPECT_EQ(count(graph_after, "cast"), 2);  // x and w
}

TEST(AutocastBf16, RefusesWeightsInF16) {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId x = b.input("x", {DType::kF32, {4, 8}}), w = b.parameter("w", {DType::kF16, {8, 8}});
  graph.outputs = {ops::matmul(b, "nd,fd->nf", x, w)};
  const auto load = std::make_unique<LoadGraph>(identity_load(graph));
  try {
    run_pass(autocast_bf16_pass, graph, *load);
    ADD_FAILURE() << "no Error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_NE(std::string(error.what()).find("\"w\" is stored in f16; expected +store_bf16"),
              std::string::npos)
        << error.what();
  }
}

TEST(AutocastBf16, SaysWhatItTradesAndHalvesActivations) {
  EXPECT_FALSE(autocast_bf16_pass.trade.empty());
  PlannedCost before = planned_step("compiled", ""),
              after = planned_step("compiled", "+autocast_bf16");
  EXPECT_LT(after.bytes, before.bytes);
}

}  // namespace
}  // namespace ridge::passes
