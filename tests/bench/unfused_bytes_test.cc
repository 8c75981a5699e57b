// SPDX-License-Identifier: Apache-2.0
// The bytes of unfused kernels are those of the course's formulas.
#include "bench/unfused_bytes.h"

#include <gtest/gtest.h>

#include "bench/module_trial.h"
#include "graph/builder.h"
#include "graph/text_form.h"
#include "ops/build.h"
#include "ops/registry.h"

namespace ridge::bench {
namespace {

Graph attention(int64_t b, int64_t h, int64_t q, int64_t kv, int64_t d) {
  Graph graph;
  Builder g(graph, ops::table());
  const ValueId queries = g.input("q", {DType::kF32, {b, h, q, d}}),
                keys = g.input("k", {DType::kF32, {b, h, kv, d}}),
                values = g.input("v", {DType::kF32, {b, h, kv, d}});
  const ValueId scores = g.call("softmax", {ops::matmul(g, "bhqe,bhke->bhqk", queries, keys)});
  graph.outputs = {ops::matmul(g, "bhqk,bhke->bhqe", scores, values)};
  return graph;
}

// Published: 4 (2 B H Lq D + 2 B H Lkv D + 7 B H Lq Lkv).
TEST(UnfusedBytes, OfAttentionPassSevenTimesOverItsScores) {
  EXPECT_EQ(unfused_bytes(attention(1, 2, 3, 4, 5)), 1'232);
  EXPECT_EQ(unfused_bytes(attention(1, 1, 1, 1, 1)), 44);
  EXPECT_EQ(unfused_bytes(attention(4, 8, 16, 32, 64)), 1'245'184);
  EXPECT_EQ(unfused_bytes(attention(2, 6, 3, 5, 7)), 10'416);
  EXPECT_EQ(unfused_bytes(attention(1, 4, 173, 256, 128)), 6'717'440);
}

TEST(UnfusedBytes, OfTheOpAreThoseOfItsParts) {
  const OpShape& shape = *find_op_shape("attention");
  const OpRequest request{{{"b", 2}, {"h", 4}, {"k", 4}, {"t", 16}, {"e", 8}, {"w", 1 << 30}},
                          parse_trial_type("fp32"),
                          false,
                          "",
                          {}};
  EXPECT_EQ(unfused_bytes(shape.build(request).graph),
            three_pass_softmax_bytes({2, 4, 16, 16, 8}, 4));
}

TEST(UnfusedBytes, LeaveViewsOutAndRefuseBlocks) {
  Graph graph = parse_graph(
      "%0 = input bf16[4,6] \"x\"\n"
      "%1 : bf16[24] = reshape(%0) {shape=[24]} #forward\n"
      "%2 : bf16[24] = gelu_tanh(%1) #forward\n"
      "return %2\n",
      ops::table());
  EXPECT_EQ(unfused_bytes(graph), 2 * 24 * 2);
  graph.value(0).type.dtype = DType::kQ8_0;
  EXPECT_EQ(unfused_bytes(graph), std::nullopt);
}

}  // namespace
}  // namespace ridge::bench
