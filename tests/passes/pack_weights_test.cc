// SPDX-License-Identifier: Apache-2.0
// Tests of pack_weights: quantized weights that only lookups and GEMMs with rounded activations
// read are repacked, and nothing else changes.
#include "backends/cpu/passes/passes.h"
#include "passes/pass_trial.h"

namespace ridge::passes {
namespace {

namespace cpu = backends::cpu;

// A tied head and further products with quantized weights, one of which has a shape that does not
// divide into tiles.
Graph tied_head(const std::string& activations) {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId table = b.parameter("table", {DType::kQ8_0, {32, 64}});
  ValueId x = b.call("embedding", {table, b.input("ids", {DType::kI32, {3}})},
                     {{"dtype", std::string("f32")}});
  auto layer = b.scope("layer.0");
  std::vector<ValueId> made = b.call_all("quantized_matmul",
                                         {x, b.parameter("up.weight", {DType::kQ4_0, {64, 64}}),
                                          b.parameter("odd.weight", {DType::kQ4_0, {24, 64}})},
                                         {{"activations", activations}});
  ValueId deep = b.call("quantized_matmul",
                        {b.input("deep", {DType::kF32, {3, 256}}),
                         b.parameter("down.weight", {DType::kQ6_K, {64, 256}})},
                        {{"activations", activations}});
  graph.outputs = {b.call("quantized_matmul", {made[0], table}, {{"activations", activations}}),
                   made[1], deep};
  return graph;
}

TEST(PackWeights, PacksWhatRoundedProductsRead) {
  Graph before = tied_head("i16");
  LoadGraph load = identity_load(before);
  Graph after = try_pass(cpu::pack_weights_pass, before, load);
  EXPECT_EQ(after.type(after.find("table")).dtype, DType::kQ8_0x16);
  EXPECT_EQ(after.type(after.find("up.weight")).dtype, DType::kQ4_0x16);
  EXPECT_EQ(after.type(after.find("odd.weight")).dtype, DType::kQ4_0);
  EXPECT_EQ(after.type(after.find("down.weight")).dtype, DType::kQ6_Kx16);
  run_pass(cpu::pack_weights_pass, before, load);
  EXPECT_EQ(load.graph.type(load.stored.at("table")).dtype, DType::kQ8_0x16);
  EXPECT_EQ(load.graph.producer(load.stored.at("odd.weight")), nullptr);
  EXPECT_FALSE(cpu::pack_weights_pass.trade.empty());
}

TEST(PackWeights, LeavesExactProductsAlone) {
  Graph before = tied_head("f32");
  LoadGraph load = identity_load(before);
  EXPECT_EQ(print(run_pass(cpu::pack_weights_pass, before, load)), print(before));
}

}  // namespace
}  // namespace ridge::passes
