// SPDX-License-Identifier: Apache-2.0
// store_bf16: what a file holds in blocks becomes bf16 when it is loaded, and no other type in the
// graph changes.
#include <gtest/gtest.h>

#include "passes/tied_head.h"

namespace ridge::passes {
namespace {

TEST(StoreBf16, UnpacksMatricesWhenTheyAreLoaded) {
  TiedHead tied;
  Graph made = tied.run(store_bf16_pass());
  EXPECT_EQ(made.type(made.find("table")).dtype, DType::kBF16);
  EXPECT_EQ(tied.load.graph.type(tied.load.stored.at("table")).dtype, DType::kBF16);
  EXPECT_EQ(made.type(made.find("norm")).dtype, DType::kF32);
  EXPECT_EQ(tied.load.graph.producer(tied.load.stored.at("norm")), nullptr);
  for (const Node& node : made.nodes)
    EXPECT_EQ(made.type(node.outputs[0]).dtype, DType::kF32) << node.op->name;
}

}  // namespace
}  // namespace ridge::passes
