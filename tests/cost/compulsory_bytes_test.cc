// SPDX-License-Identifier: Apache-2.0
// Compulsory bytes of a scope by hand: its inputs and outputs once, as if it were one kernel.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "cost/cost.h"
#include "graph/builder.h"
#include "ops/build.h"
#include "ops/registry.h"
#include "plan/targets.h"

namespace ridge::cost {
namespace {

constexpr int64_t kMatrix = 4 * 4 * 8;  // bytes of f32[4,8]

class CompulsoryBytes : public testing::Test {
 protected:
  // `scope` must read and write so many bytes of the graph with these outputs.
  int64_t bytes(const std::string& scope, std::vector<ValueId> outputs) {
    graph_.outputs = std::move(outputs);
    return compulsory_bytes(plan::plan(graph_, plan::PlainTarget()), scope);
  }

  Graph graph_;
  Builder b_{graph_, ops::table()};
};

TEST_F(CompulsoryBytes, AreThoseOfAScopeAndItsParts) {
  const ValueId x = b_.input("x", {DType::kF32, {4, 8}});
  auto within = [&](const char* name, auto&& build) {
    auto scope = b_.scope(name);
    return build();
  };
  const ValueId y = within("layer/one", [&] { return ops::unary(b_, "exp", x); }),
                z = within("layer/two", [&] { return ops::unary(b_, "neg", y); }),
                sum = within("layer", [&] { return ops::add(b_, y, z); }),
                out = within("layers", [&] { return ops::unary(b_, "tanh", sum); });
  EXPECT_EQ(bytes("layer/one", {out}), 2 * kMatrix);  // x, y
  EXPECT_EQ(bytes("layer/two", {out}), 2 * kMatrix);  // y, z
  EXPECT_EQ(bytes("layer", {out}), 2 * kMatrix);      // x, the sum; y and z stay inside
  EXPECT_EQ(bytes("layer", {out, y}), 3 * kMatrix);   // the caller reads y too
  EXPECT_EQ(bytes("layers", {out}), 2 * kMatrix);
  EXPECT_EQ(bytes("lay", {out}), 0);
  EXPECT_EQ(bytes("", {out}), 2 * kMatrix);
}

// Two gathers from a table read at most the rows of the larger one, in either order.
TEST_F(CompulsoryBytes, OfAStoredValueAreTheMostThatAKernelTouches) {
  const ValueId table = b_.parameter("table", {DType::kF32, {100, 8}}),
                few = b_.input("few", {DType::kI32, {4}}),
                more = b_.input("more", {DType::kI32, {6}});
  const ValueId first = b_.call("embedding", {table, more}),
                second = b_.call("embedding", {table, few});
  const int64_t row = 4 * 8;
  EXPECT_EQ(bytes("", {first, second}), 6 * row + 4 * (4 + 6) + row * (4 + 6));
}

}  // namespace
}  // namespace ridge::cost
