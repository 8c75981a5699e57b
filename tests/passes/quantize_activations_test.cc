// SPDX-License-Identifier: Apache-2.0
// Tests of quantize_activations: GEMMs with quantized weights round their input; other GEMMs do
// not.
#include <string>

#include "backends/cpu/isa.h"
#include "backends/cpu/passes/passes.h"
#include "base/error.h"
#include "passes/pass_trial.h"

namespace ridge::passes {
namespace {

namespace cpu = backends::cpu;

Graph two_products(DType first, DType second) {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId x = b.input("x", {DType::kF32, {4, 256}});
  auto layer = b.scope("layer.0");
  ValueId up = ops::matmul(b, "nd,fd->nf", x, b.parameter("up.weight", {first, {256, 256}}));
  graph.outputs = {ops::matmul(b, "nd,fd->nf", up, b.parameter("down.weight", {second, {8, 256}}))};
  return graph;
}

TEST(QuantizeActivations, RoundsWhatBlocksMultiply) {
  Graph before = two_products(DType::kQ4_K, DType::kBF16);
  expect_golden("quantize_activations.before.txt", print(before));
  Graph after = run_pass(cpu::quantize_activations_pass, before);
  verify(after);
  verify_origins(before, after);
  expect_golden("quantize_activations.after.txt", print(after));
  ASSERT_EQ(count(after, "quantized_matmul"), 1);
  EXPECT_EQ(count(after, "matmul"), 1) << "a bf16 weight";
  EXPECT_EQ(print(run_pass(cpu::quantize_activations_pass, after)), print(after))
      << "the pass does not come to an end";
}

// The op's reference rounds too: the error of each rounded element is at most half a unit,
// 1/64,516 of the largest element of its block.
TEST(QuantizeActivations, MovesResultsByRoundingAlone) {
  Graph before = two_products(DType::kQ8_0, DType::kQ4_0);
  Graph after = run_pass(cpu::quantize_activations_pass, before);
  ops::NamedTensors named = draw_named(before);
  ops::ReferenceRun exact(before, named), rounded(after, named);
  const std::vector<double>&want = exact[before.outputs[0]], &got = rounded[after.outputs[0]];
  double squares = 0, distance = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    squares += want[i] * want[i];
    distance += (want[i] - got[i]) * (want[i] - got[i]);
  }
  EXPECT_GT(distance, 0);
  // The largest of 32 normal elements is about 2.1, so that with a unit of its own a block's
  // rounding error is uniform with a standard deviation of 0.0048 / 254. Units that are powers of
  // two of one unit of the row are up to twice as large, and their squares 2.16 times on average.
  // Two products in a row round twice.
  EXPECT_LT(std::sqrt(distance / squares), 1.2 * std::sqrt(2.0 * 2.16) * 0.0048 / 254);
}

// With AMX the type depends on the number of tokens alone; with AVX2, wide codes keep 16 bits.
TEST(QuantizeActivations, RoundsToEightBitsWhereAsked) {
  const Graph before = two_products(DType::kQ8_0, DType::kQ4_0);
  LoadGraph load = identity_load(before);
  PassContext context{ops::table(), target(), load};
  context.number = 8;
  if (!cpu::takes_repacked(cpu::quantized_isa())) {
    EXPECT_THROW(cpu::quantize_activations_pass.run(before, context), Error);
    return;
  }
  const Graph after = cpu::quantize_activations_pass.run(before, context);
  for (const Node& node : after.nodes) {
    if (node.op->name == "quantized_matmul") {
      const bool is_wide = after.type(node.inputs[1]).dtype == DType::kQ8_0;
      EXPECT_EQ(node.attrs.text("activations"),
                is_wide && cpu::quantized_isa() == cpu::QuantizedIsa::kAvx2 ? "i16" : "i8");
    }
  }
}

// A graph without quantized weights stays in fp32 as a whole.
TEST(QuantizeActivations, RoundsAttentionNextToBlocks) {
  for (DType weight : {DType::kQ4_0, DType::kBF16}) {
    Graph graph = two_products(weight, weight);
    Builder b(graph, ops::table());
    const ValueId ids = b.input("ids", {DType::kI32, {4}}),
                  cache = b.input("cache", {DType::kF32, {1, 16, 1, 8}});
    graph.outputs.push_back(b.call("cached_attention",
                                   {b.input("q", {DType::kF32, {4, 2, 8}}), cache, cache, ids, ids,
                                    b.input("table", {DType::kI32, {1, 1}})},
                                   {{"scale", 0.5}, {"context", int64_t{16}}}));
    const Graph after = run_pass(cpu::quantize_activations_pass, graph);
    ASSERT_EQ(after.nodes.back().op->name, "cached_attention");
    EXPECT_EQ(after.nodes.back().attrs.text("activations"), is_block(weight) ? "i16" : "f32");
  }
}

TEST(QuantizeActivations, FollowsGroupProducts) {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId x = b.input("x", {DType::kF32, {1, 32}});
  for (const char* name : {"gate.weight", "up.weight"})
    graph.outputs.push_back(
        ops::matmul(b, "nd,fd->nf", x, b.parameter(name, {DType::kQ4_1, {8, 32}})));
  Graph after = run_pass(cpu::quantize_activations_pass, run_pass(group_products_pass, graph));
  ASSERT_EQ(count(after, "quantized_matmul"), 1);
  EXPECT_EQ(after.nodes[0].attrs.text("activations"), "i16");
  EXPECT_FALSE(cpu::quantize_activations_pass.trade.empty());
}

}  // namespace
}  // namespace ridge::passes
