// SPDX-License-Identifier: Apache-2.0
// Places of values: layouts through chains of views, updates in place, the parts of concats inside
// their outputs, and the resulting counts.
#include "plan/places.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/null/null_backend.h"
#include "cost/cost.h"
#include "ops/build.h"
#include "ops/registry.h"

namespace ridge::plan {
namespace {

const Target& target() {
  static const auto made = backends::null::make_null_target();
  return *made;
}

class PlacesTest : public ::testing::Test {
 protected:
  ValueId input(Shape shape) {
    return b.input(fmt::format("x{}", graph.values.size()), {DType::kF32, shape});
  }
  Place place(ValueId value) const { return at(places(graph, &target()), value); }
  cost::NodeCost cost() const { return total(cost::node_costs(plan(graph, target()))); }

  Graph graph;
  Builder b{graph, ops::table()};
};

TEST_F(PlacesTest, ViewsShareTheBufferOfTheirRoot) {
  ValueId x = input({6, 8, 10});
  ValueId cut = ops::slice(b, x, 1, 2, 6);             // [6,4,10] at 20
  ValueId turned = ops::transpose(b, cut, {2, 0, 1});  // [10,6,4]
  ValueId again = ops::slice(b, turned, 0, 3, 5);      // [2,6,4] at 23
  Place p = place(again);
  EXPECT_EQ(p.root, x);
  EXPECT_EQ(p.layout.offset, 2 * 10 + 3);
  EXPECT_EQ(p.layout.strides, (Strides{1, 80, 10}));
  EXPECT_FALSE(p.inexpressible);
  EXPECT_EQ(cost().bytes(), 0);
  EXPECT_EQ(cost().launches, 0);
}

TEST_F(PlacesTest, ReshapeOfATransposeHasNoLayout) {
  ValueId flat = ops::reshape(b, ops::transpose(b, input({6, 8}), {1, 0}), {48});
  EXPECT_TRUE(place(flat).inexpressible);
  EXPECT_FALSE(place(ops::reshape(b, input({6, 8}), {48})).inexpressible);
}

TEST_F(PlacesTest, PartsAreMadeWhereTheirSumLies) {
  ValueId x = input({5, 6}), y = input({5, 4});
  ValueId left = ops::unary(b, "exp", x), right = ops::unary(b, "exp", y);
  ValueId joined = ops::concat(b, {left, right}, 1);
  graph.outputs = {ops::unary(b, "tanh", joined)};
  EXPECT_EQ(place(left).root, joined);
  EXPECT_EQ(place(right).root, joined);
  EXPECT_EQ(place(right).layout.offset, 6);
  EXPECT_EQ(place(right).layout.strides, (Strides{10, 1}));
  // Nothing is copied: there are three kernels, and each reads and writes its operands once.
  EXPECT_EQ(cost().launches, 3);
  EXPECT_EQ(cost().bytes(), 4 * (2 * 30 + 2 * 20 + 2 * 50));
}

TEST_F(PlacesTest, APartThatOthersReadIsCopied) {
  ValueId x = input({5, 6});
  ValueId made = ops::unary(b, "exp", x);
  ValueId joined = ops::concat(b, {made, x}, 1);
  graph.outputs = {ops::add(b, made, made), joined};
  EXPECT_NE(place(made).root, joined);
  std::vector<cost::NodeCost> costs = cost::node_costs(plan(graph, target()));
  EXPECT_EQ(costs[1].read_bytes, 4 * 60);
  EXPECT_EQ(costs[1].written_bytes, 4 * 60);
  EXPECT_EQ(costs[1].launches, 1);
}

TEST_F(PlacesTest, JoinsInsideJoinsFindTheirSeat) {
  ValueId a = ops::unary(b, "exp", input({2, 3})), c = ops::unary(b, "exp", input({2, 4}));
  ValueId inner = ops::concat(b, {a, c}, 1);
  ValueId outer = ops::concat(b, {inner, ops::unary(b, "exp", input({1, 7}))}, 0);
  graph.outputs = {outer};
  EXPECT_EQ(place(c).root, outer);
  EXPECT_EQ(place(c).layout.offset, 3);
  EXPECT_EQ(place(c).layout.strides, (Strides{7, 1}));
}

TEST_F(PlacesTest, AnUpdateKeepsItsBuffer) {
  ValueId state = b.state("s", {DType::kF32, {4, 4}});
  ValueId next = b.call("accumulate", {state, input({4, 4})});
  EXPECT_EQ(place(next).root, state);
}

TEST_F(PlacesTest, APartThatIsAnUpdateKeepsItsBuffer) {
  ValueId state = b.state("s", {DType::kF32, {2, 4}});
  ValueId next = b.call("accumulate", {state, input({2, 4})});
  ValueId made = ops::unary(b, "exp", input({2, 3}));
  ValueId joined = ops::concat(b, {next, made}, 1);
  graph.outputs = {joined};
  EXPECT_EQ(place(next).root, state);
  EXPECT_EQ(place(made).root, joined);
}

TEST_F(PlacesTest, RepeatedElementsCountOnce) {
  ValueId row = input({8}), x = input({100, 8});
  ops::mul(b, x, ops::broadcast_rows(b, row, {100, 8}));
  EXPECT_EQ(cost().read_bytes, 4 * (800 + 8));
  EXPECT_EQ(cost().written_bytes, 4 * 800);
}

TEST_F(PlacesTest, AnOperandReadTwiceCountsOnce) {
  ValueId x = input({100});
  ops::mul(b, x, x);
  EXPECT_EQ(cost().read_bytes, 400);
}

TEST_F(PlacesTest, CompulsoryBytesAreThoseOfInputsAndOutputs) {
  ValueId x = input({100});
  ValueId y = x;
  {
    auto scope = b.scope("inner");
    for (int i = 0; i < 5; ++i) y = ops::unary(b, "exp", y);
  }
  graph.outputs = {ops::unary(b, "tanh", y)};
  const PlannedGraph planned = plan(graph, target());
  EXPECT_EQ(cost::compulsory_bytes(planned, ""), 800);
  EXPECT_EQ(cost::compulsory_bytes(planned, "inner"), 800);
  EXPECT_EQ(cost::compulsory_bytes(planned, "inne"), 0);
  EXPECT_EQ(total(cost::node_costs(planned)).bytes(), 6 * 800);
}

TEST_F(PlacesTest, GathersCountTheRowsTheyTouch) {
  ValueId table = b.parameter("table", {DType::kF32, {1000, 16}});
  ValueId ids = b.input("ids", {DType::kI32, {5}});
  b.call("embedding", {table, ids});
  EXPECT_EQ(cost().read_bytes, 4 * (5 * 16) + 4 * 5);
  EXPECT_EQ(cost().written_bytes, 4 * 5 * 16);
}

}  // namespace
}  // namespace ridge::plan
