// SPDX-License-Identifier: Apache-2.0
// Rewrite rules: the matched sites, the position of the new nodes, and the removal of the old
// nodes.
#include "graph/rewrite_rule.h"

#include <gtest/gtest.h>

#include <array>

#include "graph/verifier.h"
#include "ops/build.h"
#include "ops/pointwise.h"
#include "ops/registry.h"

namespace ridge {
namespace {

const Op& op(Pointwise function) { return ops::pointwise_op(function); }

class RewriteRuleTest : public testing::Test {
 protected:
  RewriteRuleTest() { x = b.input("x", {DType::kF32, {2, 3}}); }

  std::string rewritten(std::span<const RewriteRule> rules) {
    Graph made = rewrite(graph, ops::table(), rules);
    verify(made);
    std::string text;
    for (const Node& node : made.nodes) text += (text.empty() ? "" : " ") + node.op->name;
    return text;
  }
  // Replaces the root by another op on the value that the pattern captured as "a".
  static RewriteRule becomes(Pattern pattern, const char* name) {
    return {std::move(pattern), {}, [name](Rewriter& rewriter, const Match& match) {
              auto derive = rewriter.builder().derive(match.from(), "", Phase::kForward);
              rewriter.replace(match.root().outputs[0], ops::unary(rewriter.builder(), name,
                                                                   rewriter.map(match.value("a"))));
            }};
  }
  static Pattern exp_of_tanh() {
    return node_of(op(Pointwise::kExp), {node_of(op(Pointwise::kTanh), {any("a")}).as("inner")});
  }

  Graph graph;
  Builder b{graph, ops::table()};
  ValueId x;
};

TEST_F(RewriteRuleTest, ReplacesTheRootAndDropsWhatItAloneRead) {
  graph.outputs = {ops::unary(b, "exp", ops::unary(b, "tanh", x))};
  EXPECT_EQ(rewritten(std::array{becomes(exp_of_tanh(), "sigmoid")}), "sigmoid");
}

TEST_F(RewriteRuleTest, KeepsWhatOthersRead) {
  ValueId inner = ops::unary(b, "tanh", x);
  graph.outputs = {ops::unary(b, "exp", inner), ops::unary(b, "square", inner)};
  EXPECT_EQ(rewritten(std::array{becomes(exp_of_tanh(), "sigmoid")}), "tanh sigmoid square");
}

TEST_F(RewriteRuleTest, TheFirstRuleComesFirst) {
  graph.outputs = {ops::unary(b, "exp", ops::unary(b, "tanh", x)), ops::unary(b, "tanh", x)};
  RewriteRule both = becomes(exp_of_tanh(), "sigmoid");
  RewriteRule alone = becomes(node_of(op(Pointwise::kTanh), {any("a")}), "silu");
  // `both` removes the inner tanh, so `alone` replaces only the other one. Without `both`, `alone`
  // replaces the two of them.
  EXPECT_EQ(rewritten(std::array{both, alone}), "sigmoid silu");
  EXPECT_EQ(rewritten(std::array{alone}), "silu exp silu");
}

TEST_F(RewriteRuleTest, TakesTheFirstWayThatHolds) {
  ValueId y = b.input("y", {DType::kF32, {2, 3}});
  graph.outputs = {ops::add(b, x, y)};
  RewriteRule rule = becomes(node_of(op(Pointwise::kAdd), {any("a"), any("b")}), "tanh");
  rule.holds = [&](const Match& match) { return match.value("a") == y; };
  Graph made = rewrite(graph, ops::table(), std::array{rule});
  EXPECT_EQ(made.value(made.nodes[0].inputs[0]).name, "y");
  rule.holds = [](const Match&) { return false; };
  EXPECT_EQ(rewritten(std::array{rule}), "add");
}

// A sum with another reader between the sum and its norm: the new node takes the position of the
// sum.
class PlaceTest : public RewriteRuleTest {
 protected:
  static RewriteRule add_rms_norm() {
    Pattern sum = node_of(op(Pointwise::kAdd), {any("x"), any("y")});
    return {node_of(ops::rms_norm_op(), {std::move(sum).as("sum"), any("weight")}),
            {},
            [](Rewriter& rewriter, const Match& match) {
              auto derive = rewriter.builder().derive(match.from(), "", Phase::kForward);
              const Node& norm = match.root();
              rewriter.replace_all(
                  std::array{match.value("sum"), norm.outputs[0], norm.outputs[1]},
                  rewriter.builder().call_all("add_rms_norm",
                                              rewriter.map(match.values({"x", "y", "weight"})),
                                              {{"eps", norm.attrs.real("eps")}}));
            },
            "sum"};
  }
  ValueId sum = ops::add(b, x, x);
};

TEST_F(PlaceTest, StandsBeforeOtherReaders) {
  ValueId between = ops::unary(b, "exp", sum);
  ValueId weight = b.parameter("w", {DType::kF32, {3}});
  graph.outputs = {b.call_all("rms_norm", {sum, weight}, {{"eps", 1e-5}})[0], between};
  EXPECT_EQ(rewritten(std::array{add_rms_norm()}), "add_rms_norm exp");
}

TEST_F(PlaceTest, NotBeforeWhatItReads) {
  // Computed after the sum.
  ValueId weight = ops::unary(b, "exp", b.parameter("w", {DType::kF32, {3}}));
  graph.outputs = {b.call_all("rms_norm", {sum, weight}, {{"eps", 1e-5}})[0]};
  EXPECT_EQ(rewritten(std::array{add_rms_norm()}), "add exp rms_norm");
}

// An update in place is never removed as dead. It is removed only together with its replacement.
TEST_F(RewriteRuleTest, ReplacedUpdatesGo) {
  ValueId state = b.state("s", {DType::kF32, {2, 3}});
  ValueId updated = b.call("accumulate", {state, x});
  graph.outputs = {ops::unary(b, "exp", updated)};
  Pattern pattern = node_of(
      op(Pointwise::kExp), {node_of(ops::accumulate_op(), {any("state"), any("a")}).as("updated")});
  EXPECT_EQ(rewritten(std::array{becomes(pattern, "tanh")}), "accumulate tanh")
      << "a rule that stands behind the update leaves it";
  RewriteRule whole = becomes(pattern, "tanh");
  whole.at = "updated";
  EXPECT_EQ(rewritten(std::array{whole}), "tanh");
}

}  // namespace
}  // namespace ridge
