// SPDX-License-Identifier: Apache-2.0
// The pattern matcher: trees, captures, commutative
// operands, single readers, and what must not match.
#include "graph/pattern.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "ops/build.h"
#include "ops/registry.h"

namespace ridge {
namespace {

class PatternTest : public testing::Test {
 protected:
  PatternTest() {
    x = b.input("x", {DType::kF32, {2, 3}});
    y = b.input("y", {DType::kF32, {2, 3}});
  }
  std::optional<Match> match(const Pattern& pattern, ValueId root) {
    return pattern.match(graph, *graph.producer(root), graph.users());
  }

  Graph graph;
  Builder b{graph, ops::table()};
  ValueId x, y;
};

TEST_F(PatternTest, CapturesOperandsAndNodes) {
  ValueId sum = ops::add(b, x, y);
  ValueId root = ops::unary(b, "tanh", sum);
  auto found = match(
      Pattern::op("tanh", {Pattern::op("add", {any("a"), any("b")}).as("sum")}).as("root"), root);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->value("a"), x);
  EXPECT_EQ(found->value("b"), y);
  EXPECT_EQ(found->value("sum"), sum);
  EXPECT_EQ(found->value("root"), root);
  EXPECT_EQ(&found->node(graph, "sum"), &graph.nodes[0]);
  EXPECT_EQ(found->from, (std::vector<Origin>{{0, Phase::kForward}, {1, Phase::kForward}}));
  EXPECT_THROW(found->value("c"), InternalError);
  EXPECT_THROW(found->node(graph, "a"), InternalError);  // an input has no producer
}

TEST_F(PatternTest, TriesCommutativeOperandsBothWays) {
  Pattern pattern = Pattern::op("mul", {Pattern::op("tanh", {any("a")}), any("b")});
  EXPECT_TRUE(match(pattern, ops::mul(b, ops::unary(b, "tanh", x), y)));
  auto swapped = match(pattern, ops::mul(b, y, ops::unary(b, "tanh", x)));
  ASSERT_TRUE(swapped);
  EXPECT_EQ(swapped->value("a"), x);
  EXPECT_EQ(swapped->value("b"), y);
  // A difference is not commutative.
  Pattern difference = Pattern::op("sub", {Pattern::op("tanh", {any("a")}), any("b")});
  EXPECT_TRUE(match(difference, ops::sub(b, ops::unary(b, "tanh", x), y)));
  EXPECT_FALSE(match(difference, ops::sub(b, y, ops::unary(b, "tanh", x))));
}

TEST_F(PatternTest, OneNameIsOneValue) {
  Pattern square = Pattern::op("mul", {any("a"), any("a")});
  EXPECT_TRUE(match(square, ops::mul(b, x, x)));
  EXPECT_FALSE(match(square, ops::mul(b, x, y)));
  // The second way round must forget what the first one bound.
  Pattern with_sum = Pattern::op("mul", {Pattern::op("add", {any("a"), any("b")}), any("a")});
  EXPECT_TRUE(match(with_sum, ops::mul(b, ops::add(b, y, x), x)));
  EXPECT_TRUE(match(with_sum, ops::mul(b, x, ops::add(b, y, x))));
  EXPECT_FALSE(match(with_sum, ops::mul(b, ops::add(b, x, x), y)));
}

TEST_F(PatternTest, OnceRefusesASecondReader) {
  Pattern pattern = Pattern::op("tanh", {Pattern::op("add", {any("a"), any("b")}).once()});
  ValueId sum = ops::add(b, x, y);
  ValueId root = ops::unary(b, "tanh", sum);
  EXPECT_TRUE(match(pattern, root));
  ops::unary(b, "exp", sum);
  EXPECT_FALSE(match(pattern, root));
  EXPECT_TRUE(match(Pattern::op("tanh", {Pattern::op("add", {any("a"), any("b")})}), root));
}

TEST_F(PatternTest, RefusesOtherTrees) {
  ValueId root = ops::unary(b, "tanh", ops::add(b, x, y));
  EXPECT_FALSE(match(Pattern::op("exp", {any("a")}), root));
  EXPECT_FALSE(match(Pattern::op("tanh", {Pattern::op("sub", {any("a"), any("b")})}), root));
  EXPECT_FALSE(match(
      Pattern::op("tanh", {Pattern::op("add", {any("a"), Pattern::op("exp", {any("b")})})}), root));
  EXPECT_FALSE(
      match(Pattern::op("tanh", {any("a"), any("b")}), root));  // another number of operands
}

// A pattern stands for the first output of an op.
TEST_F(PatternTest, OtherOutputsDoNotMatch) {
  ValueId weight = b.parameter("w", {DType::kF32, {3}});
  std::vector<ValueId> norm = b.call_all("rms_norm", {x, weight}, {{"eps", 1e-6}});
  Pattern pattern = Pattern::op("tanh", {Pattern::op("rms_norm", {any("x"), any("w")})});
  EXPECT_TRUE(match(pattern, ops::unary(b, "tanh", norm[0])));
  EXPECT_FALSE(match(pattern, ops::unary(b, "tanh", norm[1])));
}

}  // namespace
}  // namespace ridge
