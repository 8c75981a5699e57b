// SPDX-License-Identifier: Apache-2.0
// Tests of store_fragments: quantized matrices that only lookups and GEMMs read stay in blocks, in
// fragment tiles, and store_bf16 leaves them so.
#include "backends/cuda/passes/passes.h"
#include "backends/null/null_backend.h"
#include "passes/pass_trial.h"

namespace ridge::passes {
namespace {

// A tied head, a matrix whose columns do not divide into tiles, and one that a sum reads too.
Graph tied_head() {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId table = b.parameter("table", {DType::kQ6_K, {32, 256}});
  ValueId x = b.call("embedding", {table, b.input("ids", {DType::kI32, {3}})},
                     {{"dtype", std::string("f32")}});
  auto layer = b.scope("layer.0");
  ValueId up = ops::matmul(b, "nd,fd->nf", x, b.parameter("up.weight", {DType::kQ4_K, {64, 256}}));
  ValueId odd = ops::matmul(b, "nd,fd->nf", up, b.parameter("odd.weight", {DType::kQ8_0, {8, 64}}));
  graph.outputs = {ops::matmul(b, "nd,vd->nv", x, table), odd};
  return graph;
}

TEST(StoreFragments, PacksWhatGemmsAndLookupsRead) {
  const auto gpu = backends::null::make_null_backend({});
  Graph before = tied_head();
  expect_golden("store_fragments.before.txt", print(before));
  LoadGraph load = identity_load(before);
  Graph after = run_pass(backends::cuda::store_fragments_pass, before, load, *gpu);
  verify(after);
  verify_origins(before, after);
  expect_golden("store_fragments.after.txt", print(after));
  EXPECT_EQ(after.type(after.find("table")).dtype, DType::kQ6_Kx8);
  EXPECT_EQ(after.type(after.find("up.weight")).dtype, DType::kQ4_Kx8);
  EXPECT_EQ(after.type(after.find("odd.weight")).dtype, DType::kQ8_0);
  EXPECT_EQ(load.graph.type(load.stored.at("table")).dtype, DType::kQ6_Kx8);
  EXPECT_EQ(load.graph.producer(load.stored.at("odd.weight")), nullptr);
  EXPECT_FALSE(backends::cuda::store_fragments_pass.trade.empty());
  Graph stored = run_pass(store_bf16_pass, after, load, *gpu);
  EXPECT_EQ(stored.type(stored.find("table")).dtype, DType::kQ6_Kx8);
  EXPECT_EQ(stored.type(stored.find("odd.weight")).dtype, DType::kBF16);
}

}  // namespace
}  // namespace ridge::passes
