// SPDX-License-Identifier: Apache-2.0
// The pattern matcher: trees, captures, commuted operands, single readers, alternatives, skipped
// nodes, and non-matches.
#include "graph/pattern.h"

#include <gtest/gtest.h>

#include <optional>

#include "base/error.h"
#include "ops/build.h"
#include "ops/pointwise.h"
#include "ops/registry.h"

namespace ridge {
namespace {

const Op& op(Pointwise function) { return ops::pointwise_op(function); }

class PatternTest : public testing::Test {
 protected:
  PatternTest() {
    x = b.input("x", {DType::kF32, {2, 3}});
    y = b.input("y", {DType::kF32, {2, 3}});
  }
  std::vector<Match> matches(const Pattern& pattern, ValueId root) {
    users.emplace(graph);
    return pattern.matches(*users, graph.value(root).producer);
  }
  std::vector<ValueId> rms_norm(ValueId of) {
    return b.call_all("rms_norm", {of, b.parameter("w", {DType::kF32, {3}})}, {{"eps", 1e-6}});
  }

  Graph graph;
  Builder b{graph, ops::table()};
  ValueId x, y;
  std::optional<Users> users;
};

TEST_F(PatternTest, CapturesOperandsAndNodes) {
  ValueId sum = ops::add(b, x, y);
  ValueId root = ops::unary(b, "tanh", sum);
  Pattern add = node_of(op(Pointwise::kAdd), {any("a"), any("b")});
  std::vector<Match> found =
      matches(node_of(op(Pointwise::kTanh), {std::move(add).as("sum")}).as("root"), root);
  ASSERT_EQ(found.size(), 2u) << "the operands as they stand, and the other way round";
  const Match& match = found[0];
  EXPECT_EQ(match.values({"a", "b", "sum", "root"}), (std::vector<ValueId>{x, y, sum, root}));
  EXPECT_EQ(&match.node("sum"), &graph.nodes[0]);
  EXPECT_EQ(&match.root(), &graph.nodes[1]);
  EXPECT_EQ(match.leaves(), (std::vector<ValueId>{x, y}));
  EXPECT_EQ(match.readers("sum"), std::vector<NodeId>{1});
  EXPECT_EQ(match.from(), (std::vector<Origin>{{0, Phase::kForward}, {1, Phase::kForward}}));
  EXPECT_EQ(match.from_behind(), (std::vector<Origin>{{0, Phase::kForward}}));
  EXPECT_TRUE(match.has("a"));
  EXPECT_FALSE(match.has("c"));
  EXPECT_THROW(match.value("c"), InternalError);
  EXPECT_THROW(match.node("a"), InternalError);  // an input has no producer
}

TEST_F(PatternTest, TriesCommutativeOperandsBothWays) {
  auto with_tanh = [&](Pointwise function) {
    return node_of(op(function), {node_of(op(Pointwise::kTanh), {any("a")}), any("b")});
  };
  EXPECT_EQ(matches(with_tanh(Pointwise::kMul), ops::mul(b, ops::unary(b, "tanh", x), y)).size(),
            1u);
  auto swapped = matches(with_tanh(Pointwise::kMul), ops::mul(b, y, ops::unary(b, "tanh", x)));
  ASSERT_EQ(swapped.size(), 1u);
  EXPECT_EQ(swapped[0].values({"a", "b"}), (std::vector<ValueId>{x, y}));
  // A difference is not commutative.
  EXPECT_FALSE(
      matches(with_tanh(Pointwise::kSub), ops::sub(b, ops::unary(b, "tanh", x), y)).empty());
  EXPECT_TRUE(
      matches(with_tanh(Pointwise::kSub), ops::sub(b, y, ops::unary(b, "tanh", x))).empty());
}

TEST_F(PatternTest, OneNameIsOneValue) {
  Pattern square = node_of(op(Pointwise::kMul), {any("a"), any("a")});
  EXPECT_FALSE(matches(square, ops::mul(b, x, x)).empty());
  EXPECT_TRUE(matches(square, ops::mul(b, x, y)).empty());
  // The second order of operands must forget the bindings of the first.
  Pattern with_sum =
      node_of(op(Pointwise::kMul), {node_of(op(Pointwise::kAdd), {any("a"), any("b")}), any("a")});
  EXPECT_FALSE(matches(with_sum, ops::mul(b, ops::add(b, y, x), x)).empty());
  EXPECT_FALSE(matches(with_sum, ops::mul(b, x, ops::add(b, y, x))).empty());
  EXPECT_TRUE(matches(with_sum, ops::mul(b, ops::add(b, x, x), y)).empty());
  // But an empty name captures nothing.
  Pattern product = node_of(op(Pointwise::kMul), {any(""), any("")});
  EXPECT_FALSE(matches(product, ops::mul(b, x, y)).empty());
}

TEST_F(PatternTest, OnceRefusesASecondReader) {
  Pattern sum = node_of(op(Pointwise::kAdd), {any("a"), any("b")});
  Pattern once = node_of(op(Pointwise::kTanh), {Pattern(sum).once()});
  Pattern shared = node_of(op(Pointwise::kTanh), {sum});
  ValueId value = ops::add(b, x, y);
  ValueId root = ops::unary(b, "tanh", value);
  EXPECT_FALSE(matches(once, root).empty());
  graph.outputs = {value};  // the caller reads it
  EXPECT_TRUE(matches(once, root).empty());
  graph.outputs = {};
  ops::unary(b, "exp", value);
  EXPECT_TRUE(matches(once, root).empty());
  EXPECT_FALSE(matches(shared, root).empty());
}

TEST_F(PatternTest, RefusesOtherTrees) {
  ValueId root = ops::unary(b, "tanh", ops::add(b, x, y));
  auto sum = [](Pattern second) {
    return node_of(op(Pointwise::kAdd), {any("a"), std::move(second)});
  };
  EXPECT_TRUE(matches(node_of(op(Pointwise::kExp), {any("a")}), root).empty());
  EXPECT_TRUE(
      matches(node_of(op(Pointwise::kTanh), {node_of(op(Pointwise::kSub), {any("a"), any("b")})}),
              root)
          .empty());
  EXPECT_TRUE(
      matches(node_of(op(Pointwise::kTanh), {sum(node_of(op(Pointwise::kExp), {any("b")}))}), root)
          .empty());
  // A different number of operands.
  EXPECT_TRUE(matches(node_of(op(Pointwise::kTanh), {any("a"), any("b")}), root).empty());
  EXPECT_THROW(matches(any("a"), root), InternalError);
}

TEST_F(PatternTest, OperandsMayBeLeftUnsaid) {
  ValueId sum = ops::add(b, x, y);
  EXPECT_FALSE(matches(node_of(op(Pointwise::kAdd)), sum).empty());
  EXPECT_TRUE(matches(node_of(op(Pointwise::kAdd), {any("a")}), sum).empty());
  std::vector<Match> found = matches(node_of(op(Pointwise::kAdd), {any("a")}).more(), sum);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].value("a"), x);
}

TEST_F(PatternTest, ConditionsSeeTheNode) {
  Pattern narrow =
      node_of(op(Pointwise::kScale), {any("a")}).where([](const Graph& g, const Node& node) {
        return node.attrs.real("parameter") > 1 && g.shape(node.inputs[0])[1] == 3;
      });
  EXPECT_FALSE(matches(narrow, ops::scale(b, x, 2)).empty());
  EXPECT_TRUE(matches(narrow, ops::scale(b, x, 0.5)).empty());
}

TEST_F(PatternTest, StandsForTheOutputThatItNames) {
  std::vector<ValueId> norm = rms_norm(x);
  Pattern first = node_of(op(Pointwise::kTanh), {node_of(ops::rms_norm_op())});
  Pattern second =
      node_of(op(Pointwise::kTanh), {node_of(ops::rms_norm_op()).output(1).as("rstd")});
  EXPECT_FALSE(matches(first, ops::unary(b, "tanh", norm[0])).empty());
  EXPECT_TRUE(matches(first, ops::unary(b, "tanh", norm[1])).empty());
  EXPECT_TRUE(matches(second, ops::unary(b, "tanh", norm[0])).empty());
  std::vector<Match> found = matches(second, ops::unary(b, "tanh", norm[1]));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].value("rstd"), norm[1]);
}

TEST_F(PatternTest, NamesOtherOutputsOfANode) {
  ValueId narrow = b.input("z", {DType::kF32, {2, 1}});
  std::vector<ValueId> norm = rms_norm(x), other = rms_norm(y);
  Pattern pair = node_of(op(Pointwise::kSub),
                         {node_of(ops::rms_norm_op()).output(1).as("norm"), output_of("norm", 1)});
  EXPECT_FALSE(matches(pair, ops::sub(b, norm[1], norm[1])).empty());
  EXPECT_TRUE(matches(pair, ops::sub(b, norm[1], other[1])).empty());
  EXPECT_TRUE(matches(pair, ops::sub(b, norm[1], narrow)).empty());
}

TEST_F(PatternTest, PrefersTheFirstAlternative) {
  Pattern either_way = node_of(
      op(Pointwise::kExp),
      {either({node_of(op(Pointwise::kTanh), {any("behind")}), any("whole")}).as("operand")});
  ValueId tanh = ops::unary(b, "tanh", x);
  std::vector<Match> found = matches(either_way, ops::unary(b, "exp", tanh));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].values({"behind", "operand"}), (std::vector<ValueId>{x, tanh}));
  EXPECT_EQ(found[1].values({"whole", "operand"}), (std::vector<ValueId>{tanh, tanh}));
  EXPECT_EQ(matches(either_way, ops::unary(b, "exp", y)).size(), 1u);
  // Alternatives also work as the root.
  Pattern root = either({node_of(op(Pointwise::kTanh)), node_of(op(Pointwise::kExp))}).as("root");
  EXPECT_EQ(matches(root, tanh).at(0).value("root"), tanh);
  EXPECT_TRUE(matches(root, ops::add(b, x, y)).empty());
}

TEST_F(PatternTest, LooksPastOps) {
  Pattern behind = node_of(op(Pointwise::kExp), {past({&ops::reshape_op(), &ops::rms_norm_op()},
                                                      node_of(op(Pointwise::kTanh), {any("a")}))
                                                     .as("last")});
  ValueId tanh = ops::unary(b, "tanh", x);
  EXPECT_EQ(matches(behind, ops::unary(b, "exp", tanh)).size(), 1u);
  ValueId last = ops::reshape(b, rms_norm(tanh)[0], Shape{3, 2});
  std::vector<Match> found = matches(behind, ops::unary(b, "exp", last));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].values({"a", "last"}), (std::vector<ValueId>{x, last}));
  EXPECT_EQ(found[0].nodes().size(), 4u) << "what is passed over is named too";
  EXPECT_TRUE(matches(behind, ops::unary(b, "exp", ops::scale(b, tanh, 2))).empty());
}

}  // namespace
}  // namespace ridge
