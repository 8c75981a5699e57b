// SPDX-License-Identifier: Apache-2.0
// The scores of flash attention that a plan counts on a device with given tiles, and how it
// multiplies quantized weights.
#include "backends/null/null_backend.h"

#include <gtest/gtest.h>

#include "graph/builder.h"
#include "ops/infer.h"
#include "ops/plain_attention.h"
#include "ops/registry.h"

namespace ridge::backends::null {
namespace {

TEST(NullTarget, CountsTheScoresOfTilesThatHoldAVisiblePair) {
  const auto target = make_null_target({.query_tile = 16, .key_tile = 8});
  for (int64_t sequence : {1, 8, 15, 16, 17, 40, 65})
    for (int64_t window : {-1, 0, 1, 7, 8, 9, 16, 24, 100}) {  // -1: not causal
      const Attrs attrs{{"sequence", sequence},
                        {"causal", window >= 0},
                        {"window", std::max<int64_t>(window, 0)},
                        {"scale", 0.5}};
      const Type q = ops::f32({2 * sequence, 4, 8}), k = ops::f32({2 * sequence, 2, 8});
      const std::vector<Type> inputs{q, k, k};
      const Call call{inputs, {}, attrs};
      const plan::FlashScores scores = target->flash_scores(call);
      const int64_t want = ops::Heads(call, q.shape, k.shape).scores({16, 8});
      EXPECT_EQ(scores.forward, want) << sequence << " in windows of " << window;
      EXPECT_EQ(scores.backward, want) << sequence << " in windows of " << window;
      EXPECT_EQ(scores.recomputed, 0);
    }
}

// The library multiplies what is unpacked: from 65 tokens on small weights, from 129 on all.
TEST(NullTarget, UnpacksQuantizedWeightsForManyTokens) {
  const auto target = make_null_target();
  const auto unpacks = [&](int64_t tokens, const Shape& weight) {
    Graph graph;
    Builder b(graph, ops::table());
    const ValueId x = b.input("x", {DType::kBF16, {tokens, weight[1]}}),
                  w = b.parameter("w", {DType::kQ4_Kx8, weight});
    graph.outputs = {b.call("matmul", {x, w}, {{"einsum", std::string("nd,fd->nf")}})};
    return target->calls_library(graph, graph.nodes.back());
  };
  const Shape small{4096, 2048}, large{4104, 2048};  // 2^23 elements, and a row of tiles more
  for (const int64_t tokens : {1, 64}) EXPECT_FALSE(unpacks(tokens, small)) << tokens;
  for (const int64_t tokens : {65, 128, 129}) EXPECT_TRUE(unpacks(tokens, small)) << tokens;
  for (const int64_t tokens : {1, 64, 65, 128}) EXPECT_FALSE(unpacks(tokens, large)) << tokens;
  EXPECT_TRUE(unpacks(129, large));
}

}  // namespace
}  // namespace ridge::backends::null
