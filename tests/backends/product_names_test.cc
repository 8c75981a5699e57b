// SPDX-License-Identifier: Apache-2.0
// Products have the names of the kernels that their sizes choose.
#include "backends/cpu/product_names.h"

#include <gtest/gtest.h>

#include "graph/builder.h"
#include "ops/build.h"
#include "ops/registry.h"

namespace ridge::backends::cpu {
namespace {

std::string name_of(int64_t rows, DType weight = DType::kF32) {
  Graph graph;
  Builder b(graph, ops::table());
  const ValueId x = b.input("x", {DType::kF32, {rows, 256}}),
                w = b.input("w", {weight, {128, 256}});
  graph.outputs = {is_block(weight) ? b.call("quantized_matmul", {x, w})
                                    : ops::matmul(b, "nk,mk->nm", x, w)};
  return product_kernel(graph, graph.nodes.back());
}

TEST(ProductNames, FollowTheSize) {
  EXPECT_EQ(name_of(1), "gemv");
  const std::string square = name_of(128);
  EXPECT_FALSE(square.empty());
  EXPECT_NE(square, "gemv");
}

TEST(ProductNames, OfOtherOpsAreEmpty) {
  Graph graph;
  Builder b(graph, ops::table());
  graph.outputs = {b.call("softmax", {b.input("x", {DType::kF32, {4, 8}})})};
  EXPECT_EQ(product_kernel(graph, graph.nodes[0]), "");
  EXPECT_EQ(name_of(1, DType::kQ8_0), "");
}

}  // namespace
}  // namespace ridge::backends::cpu
