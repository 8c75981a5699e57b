// SPDX-License-Identifier: Apache-2.0
// own_products: products that the target has a kernel for say so, and mean what they meant.
#include <gtest/gtest.h>

#include "passes/decode_step.h"

namespace ridge::passes {
namespace {

TEST(OwnProducts, MarksWhatTheTargetTakes) {
  Graph built = perceptron();
  Graph after = try_pass(own_products_pass(), built, identity_load(built), GpuKernels());
  for (const Node& node : after.nodes)
    EXPECT_EQ(node.attrs.flag("own"), node.op->name == "matmul") << node.op->name;
  EXPECT_EQ(count(after, "matmul"), 2);
}

TEST(OwnProducts, AsksTheTarget) {
  Graph after = run_pass(own_products_pass(), perceptron());
  for (const Node& node : after.nodes) EXPECT_FALSE(node.attrs.flag("own")) << node.op->name;
}

TEST(OwnProducts, IsOfTheLevelOfKernels) {
  EXPECT_FALSE(Selection("fused", "").has("own_products"));
  EXPECT_TRUE(Selection("kernels", "").has("own_products"));
  EXPECT_FALSE(Selection("compiled", "-own_products").has("own_products"));
}

}  // namespace
}  // namespace ridge::passes
