// SPDX-License-Identifier: Apache-2.0
// store_f32: what a file holds in blocks becomes fp32 when it is loaded, and no other type in the
// graph changes.
#include <gtest/gtest.h>

#include "passes/tied_head.h"

namespace ridge::passes {
namespace {

TEST(StoreF32, UnpacksMatricesWhenTheyAreLoaded) {
  TiedHead tied;
  Graph made = tied.run(store_f32_pass());
  EXPECT_EQ(made.type(made.find("table")).dtype, DType::kF32);
  EXPECT_EQ(tied.load.graph.type(tied.load.stored.at("table")).dtype, DType::kF32);
  EXPECT_EQ(made.type(made.find("norm")).dtype, DType::kF32);
  EXPECT_EQ(tied.load.graph.producer(tied.load.stored.at("norm")), nullptr);
  for (const Node& node : made.nodes)
    EXPECT_EQ(made.type(node.outputs[0]).dtype, DType::kF32) << node.op->name;
}

}  // namespace
}  // namespace ridge::passes
