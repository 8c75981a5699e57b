// SPDX-License-Identifier: Apache-2.0
// Errors of the builder, and the data that it records by itself: scopes, phases, origins, storage
// of outputs.
#include "graph/builder.h"

#include <gtest/gtest.h>

#include <type_traits>

#include "base/error.h"
#include "graph/verifier.h"
#include "ops/build.h"
#include "ops/registry.h"

namespace ridge {
namespace {

class BuilderTest : public testing::Test {
 protected:
  ValueId f32(const std::string& name, Shape shape) { return b.input(name, {DType::kF32, shape}); }
  std::string refusal(std::string_view op, std::vector<ValueId> inputs, Attrs attrs = {}) {
    size_t nodes = graph.nodes.size(), values = graph.values.size();
    try {
      b.call_all(op, std::move(inputs), std::move(attrs));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      EXPECT_EQ(graph.nodes.size(), nodes) << "a refused call left a node";
      EXPECT_EQ(graph.values.size(), values) << "a refused call left a value";
      return error.what();
    }
    return "";
  }
  void expect_refusal(const std::string& what,
                      std::string_view op,
                      std::vector<ValueId> inputs,
                      Attrs attrs = {}) {
    EXPECT_EQ(refusal(op, std::move(inputs), std::move(attrs)), what);
  }

  Graph graph;
  Builder b{graph, ops::table()};
};

TEST_F(BuilderTest, RefusalsNameOpOperandsAndScope) {
  ValueId x = f32("x", {2, 3}), y = f32("y", {3, 2});
  auto scope = b.scope("layer.0");
  expect_refusal(
      "[add] expected operands of one type, got f32[2,3] and f32[3,2] (inputs f32[2,3], f32[3,2] "
      "in layer.0)",
      "add", {x, y});
  expect_refusal("[add] expected 2 inputs, got 1", "add", {x});
  expect_refusal("[matmul] expected 2 to 3 inputs, got 1", "matmul", {x},
                 {{"einsum", std::string("ab,bc->ac")}});
  expect_refusal("[concat] expected at least 1 inputs, got 0", "concat", {},
                 {{"axis", int64_t{0}}});
  expect_refusal("[tanh] unknown attribute 'axis'", "tanh", {x}, {{"axis", int64_t{0}}});
  expect_refusal("[scale] attribute 'parameter' is missing", "scale", {x});
  expect_refusal("[scale] attribute 'parameter' has the wrong type", "scale", {x},
                 {{"parameter", int64_t{2}}});
  EXPECT_NE(refusal("atan", {x}).find("[op] unknown op \"atan\"; expected one of add, sub"),
            std::string::npos);
}

TEST_F(BuilderTest, NestsScopesAndSetsPhases) {
  ValueId x = f32("x", {2});
  {
    auto layer = b.scope("layer.0");
    {
      auto attention = b.scope("attention");
      x = ops::unary(b, "tanh", x);
    }
    x = ops::unary(b, "tanh", x);
  }
  b.set_phase(Phase::kOptimizer);
  x = ops::unary(b, "tanh", x);
  EXPECT_EQ(graph.nodes[0].scope, "layer.0/attention");
  EXPECT_EQ(graph.nodes[1].scope, "layer.0");
  EXPECT_EQ(graph.nodes[2].scope, "");
  EXPECT_EQ(graph.nodes[1].phase, Phase::kForward);
  EXPECT_EQ(graph.nodes[2].phase, Phase::kOptimizer);
  EXPECT_EQ(graph.nodes[2].from, (std::vector<Origin>{{2, Phase::kOptimizer}}));
}

TEST_F(BuilderTest, GivesEachNodeThatDoesWorkAnOrigin) {
  ValueId x = f32("x", {2, 3});
  ValueId view = ops::transpose(b, x, {1, 0});
  ops::unary(b, "exp", view);
  EXPECT_TRUE(graph.nodes[0].from.empty());
  ASSERT_EQ(graph.origins.size(), 1u);
  EXPECT_EQ(graph.nodes[1].from, (std::vector<Origin>{{0, Phase::kForward}}));
  EXPECT_EQ(graph.origins[0].op, "exp");
  EXPECT_EQ(graph.origins[0].work.forward, arithmetic(6, 6));
}

TEST_F(BuilderTest, DerivesForOthersAndComesBack) {
  ValueId x = f32("x", {2});
  ops::unary(b, "exp", x);
  {
    auto derive = b.derive({{0, Phase::kBackward}}, "elsewhere", Phase::kBackward);
    ops::unary(b, "neg", x);
  }
  ops::unary(b, "neg", x);
  EXPECT_EQ(graph.nodes[1].from, (std::vector<Origin>{{0, Phase::kBackward}}));
  EXPECT_EQ(graph.nodes[1].scope, "elsewhere");
  EXPECT_EQ(graph.nodes[2].from, (std::vector<Origin>{{1, Phase::kForward}}));
  EXPECT_EQ(graph.nodes[2].scope, "");
  EXPECT_EQ(graph.nodes[2].phase, Phase::kForward);
  EXPECT_EQ(graph.origins.size(), 2u);
}

TEST_F(BuilderTest, OneNameIsOneValue) {
  ValueId x = b.parameter("w", {DType::kF32, {2}});
  EXPECT_EQ(b.parameter("w", {DType::kF32, {2}}), x);
  EXPECT_THROW(b.parameter("w", {DType::kF32, {3}}), InternalError);
  EXPECT_THROW(b.state("w", {DType::kF32, {2}}), InternalError);
  EXPECT_EQ(graph.find("w"), x);
  EXPECT_EQ(graph.find("v"), kNoValue);
}

TEST_F(BuilderTest, OutputsOfUpdatesAndViewsAreStoredLikeTheirInput) {
  ValueId total = b.state("total", {DType::kF32, {2, 3}});
  ValueId view = ops::reshape(b, total, {6});
  ValueId next = b.call("accumulate", {total, f32("x", {2, 3})});
  ValueId made = ops::unary(b, "exp", next);
  EXPECT_EQ(graph.value(view).storage, Storage::kState);
  EXPECT_EQ(graph.value(next).storage, Storage::kState);
  EXPECT_EQ(graph.value(made).storage, Storage::kTemporary);
  EXPECT_TRUE(updates_store(graph, graph.nodes[1]));
  EXPECT_FALSE(updates_store(graph, graph.nodes[2]));
}

// A bias is broadcast to the shape of a product, and both are appended to the graph whose shape is
// passed.
TEST_F(BuilderTest, GivesShapesThatOutliveTheNodesThatFollow) {
  static_assert(!std::is_reference_v<decltype(b.shape(0))>);
  static_assert(!std::is_reference_v<decltype(b.type(0))>);
  const ValueId product = f32("product", {3, 5}), bias = f32("bias", {5});
  graph.values.shrink_to_fit();  // the next value moves all others
  EXPECT_EQ(b.shape(ops::broadcast_rows(b, bias, b.shape(product))), (Shape{3, 5}));
}

TEST_F(BuilderTest, FillsAttributesWithTheirDefaults) {
  ValueId x = f32("x", {2, 3});
  b.call("matmul", {x, x}, {{"einsum", std::string("ab,cb->ac")}});
  EXPECT_EQ(graph.nodes[0].attrs.text("dtype"), "");
}

TEST_F(BuilderTest, RefusesSizesWhoseWorkCannotBeCounted) {
  EXPECT_THROW(f32("x", {int64_t{1} << 53}), Error);
  ValueId x = f32("y", {int64_t{1} << 40, 1});
  EXPECT_THROW(ops::matmul(b, "ab,cb->ac", x, x), Error);
  EXPECT_THROW(ops::broadcast(b, x, {int64_t{1} << 40, int64_t{1} << 40}), Error);
  ValueId q = f32("q", {int64_t{1} << 32, 1, 8});
  Attrs attrs{{"sequence", int64_t{1} << 32}, {"causal", true}, {"scale", 1.0}};
  EXPECT_THROW(b.call("attention", {q, q, q}, attrs), Error);
}

TEST_F(BuilderTest, RefusesGraphsThatTakeMinutesToPlan) {
  ValueId x = f32("x", {2, 3});
  auto scope = b.scope("layer.9");
  for (int64_t i = 0; i < kMostNodes; ++i) x = ops::add(b, x, x);
  try {
    ops::add(b, x, x);
    FAIL() << "one node more was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kOutOfMemory);
    EXPECT_STREQ(error.what(), "[graph] expected at most 65536 nodes, got more at layer.9");
  }
}

}  // namespace
}  // namespace ridge
