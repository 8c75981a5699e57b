// SPDX-License-Identifier: Apache-2.0
// Tests of differentiation on the graph: the nodes that it appends for fans, slices and tied
// weights, and that they compute the derivative. Gradients of single ops:
// tests/backends/op_gradient_test.cc.
#include "passes/differentiate.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "graph/random_graph.h"
#include "passes/pass_trial.h"

namespace ridge::passes {
namespace {

// d loss / dx by central differences. `x` is an element of `named`, the operands of the graph.
double slope(const Graph& graph, const ops::NamedTensors& named, double& x) {
  const double at = x, step = 1e-5;
  auto loss_at = [&](double moved) {
    x = moved;
    return ops::ReferenceRun(graph, named)[graph.outputs[0]][0];
  };
  const double above = loss_at(at + step), below = loss_at(at - step);
  x = at;
  return (above - below) / (2 * step);
}

class DifferentiateTest : public testing::Test {
 protected:
  ValueId parameter(const char* name, Shape shape = {4, 6}) {
    return b.parameter(name, {DType::kF32, shape});
  }
  // loss = sum of squares of x.
  ValueId loss_of(ValueId x) {
    std::vector<int64_t> axes;
    for (int axis = 0; axis < b.shape(x).rank(); ++axis) axes.push_back(axis);
    return ops::reshape(b, ops::reduce_sum(b, ops::unary(b, "square", x), axes), Shape{});
  }
  std::vector<ValueId> differentiate_and_check(ValueId loss, std::vector<ValueId> wanted) {
    size_t forward_nodes = graph.nodes.size();
    graph.outputs = {loss};
    const Graph forward = graph;
    std::vector<ValueId> gradients = differentiate(graph, ops::table(), loss, wanted);
    verify(graph);
    for (size_t i = forward_nodes; i < graph.nodes.size(); ++i)
      EXPECT_EQ(graph.nodes[i].phase, Phase::kBackward);
    expect_derivative(forward, wanted, gradients);
    return gradients;
  }
  void expect_derivative(const Graph& forward,
                         const std::vector<ValueId>& wanted,
                         const std::vector<ValueId>& gradients) {
    ops::NamedTensors named = draw_named(forward);
    ops::ReferenceRun run(graph, named);
    for (size_t w = 0; w < wanted.size(); ++w) {
      if (gradients[w] == kNoValue) continue;
      EXPECT_EQ(graph.type(gradients[w]), graph.type(wanted[w]));
      std::vector<double>& x = named.at(forward.value(wanted[w]).name).data;
      for (size_t i = 0; i < x.size(); ++i) {
        double want = slope(forward, named, x[i]);
        ASSERT_NEAR(run[gradients[w]][i], want, 1e-6 * std::max(1.0, std::abs(want)))
            << forward.value(wanted[w]).name << " element " << i;
      }
    }
  }
  int64_t count_backward(std::string_view op) const {
    return std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node& n) {
      return n.op->name == op && n.phase == Phase::kBackward;
    });
  }

  Graph graph;
  Builder b{graph, ops::table()};
};

TEST_F(DifferentiateTest, SumsGradientsOfAFan) {
  ValueId x = parameter("x");
  ValueId y = ops::unary(b, "tanh", x);
  ValueId sum = ops::add(b, ops::unary(b, "exp", y), ops::mul(b, y, ops::unary(b, "sigmoid", y)));
  differentiate_and_check(loss_of(sum), {x});
  EXPECT_GE(count_backward("add"), 2);
}

TEST_F(DifferentiateTest, JoinsSlicesByOneConcat) {
  ValueId x = parameter("x");
  ValueId a = ops::slice(b, x, 1, 0, 2), c = ops::slice(b, x, 1, 2, 5),
          d = ops::slice(b, x, 1, 5, 6);
  ValueId joined = ops::concat(
      b, {ops::unary(b, "exp", a), ops::unary(b, "tanh", c), ops::unary(b, "neg", d)}, 1);
  differentiate_and_check(loss_of(joined), {x});
  EXPECT_EQ(count_backward("concat"), 1);
  EXPECT_EQ(count_backward("fill"), 1);  // the seed; no zeros are filled in
}

TEST_F(DifferentiateTest, FillsWhatNoSliceCovers) {
  ValueId x = parameter("x");
  differentiate_and_check(loss_of(ops::slice(b, x, 1, 2, 4)), {x});
  EXPECT_EQ(count_backward("concat"), 1);
  EXPECT_EQ(count_backward("fill"), 3);
}

TEST_F(DifferentiateTest, SumsEqualSlicesBeforeItJoinsThem) {
  ValueId x = parameter("x");
  auto half = [&](int64_t begin) { return ops::slice(b, x, 1, begin, begin + 3); };
  ValueId sum = ops::add(b, ops::mul(b, half(0), half(3)), ops::unary(b, "exp", half(0)));
  differentiate_and_check(loss_of(sum), {x});
  EXPECT_EQ(count_backward("concat"), 1);
}

TEST_F(DifferentiateTest, AddsTheWholeToItsSlices) {
  ValueId x = parameter("x");
  ValueId part = ops::unary(b, "exp", ops::slice(b, x, 0, 1, 3));
  ValueId loss = ops::add(b, loss_of(part), loss_of(ops::unary(b, "tanh", x)));
  differentiate_and_check(loss, {x});
}

// Causal attention by chunks of queries has such slices: each chunk reads the keys before it. The
// second group is the first one's middle, the third is along another axis.
TEST_F(DifferentiateTest, AddsSlicesThatOverlap) {
  ValueId x = parameter("x");
  ValueId loss = kNoValue;
  for (const auto& [axis, begin, end] :
       {std::tuple{1, 0, 3}, {1, 3, 6}, {1, 0, 6}, {1, 2, 4}, {0, 1, 2}}) {
    ValueId part = loss_of(ops::unary(b, "exp", ops::slice(b, x, axis, begin, end)));
    loss = loss == kNoValue ? part : ops::add(b, loss, part);
  }
  differentiate_and_check(loss, {x});
}

// Both halves get the same gradient: the concat reads one value twice.
TEST_F(DifferentiateTest, OneGradientForTwoSlices) {
  ValueId x = parameter("x");
  ValueId sum = ops::add(b, ops::slice(b, x, 1, 0, 3), ops::slice(b, x, 1, 3, 6));
  differentiate_and_check(loss_of(sum), {x});
}

// A tied table has two uses: the gradient of one is accumulated in place onto that of the other.
TEST_F(DifferentiateTest, AddsTheTiedTablesGradientsInPlace) {
  ValueId table = parameter("table", {8, 6});
  ValueId ids = b.input("ids", {DType::kI32, {5}});
  ValueId x = ops::unary(b, "tanh", b.call("embedding", {table, ids}));
  ValueId logits = ops::matmul(b, "nd,vd->nv", x, table);
  graph.outputs = {loss_of(logits)};
  std::vector<ValueId> wanted{table};
  std::vector<ValueId> gradients = differentiate(graph, ops::table(), graph.outputs[0], wanted);
  verify(graph);
  EXPECT_EQ(count_backward("add"), 0);
  const Node* last = graph.producer(gradients[0]);
  EXPECT_EQ(last->inputs.size(), 3u) << print(graph, *last);
}

TEST_F(DifferentiateTest, AddsProductsOfASharedWeightInPlace) {
  ValueId x = b.input("x", {DType::kF32, {4, 6}}), w = parameter("w", {6, 6});
  ValueId y = ops::unary(b, "tanh", ops::matmul(b, "nd,fd->nf", x, w));
  differentiate_and_check(loss_of(ops::matmul(b, "nd,fd->nf", y, w)), {w});
  EXPECT_EQ(count_backward("add"), 0);
}

// The add passes one gradient to two values. A product's gradient must not be accumulated onto it
// in place.
TEST_F(DifferentiateTest, DoesNotOverwriteAGradientThatAnotherValueWaitsFor) {
  ValueId p = parameter("p"), q = parameter("q"), w = parameter("w", {6, 6});
  ValueId right = ops::unary(b, "tanh", q);
  ValueId left = ops::unary(b, "sigmoid", p);
  ValueId product = ops::matmul(b, "nd,fd->nf", left, w);
  ValueId sum = ops::add(b, left, right);
  ValueId loss = ops::add(b, loss_of(product), loss_of(sum));
  differentiate_and_check(loss, {p, q, w});
}

TEST_F(DifferentiateTest, DoesNotOverwriteAGradientThatIsAskedForTwice) {
  ValueId p = parameter("p"), w = parameter("w", {6, 6});
  ValueId left = ops::unary(b, "sigmoid", p);
  ValueId sum = ops::add(b, ops::add(b, left, left),
                         ops::unary(b, "tanh", ops::matmul(b, "nd,fd->nf", left, w)));
  differentiate_and_check(loss_of(sum), {p, w});
}

// The bytes under a view of a gradient must not be overwritten while something reads the view.
TEST_F(DifferentiateTest, DoesNotOverwriteUnderAView) {
  ValueId p = parameter("p", {6, 6}), w = parameter("w", {6, 6});
  ValueId left = ops::unary(b, "sigmoid", p);
  ValueId turned = ops::transpose(b, left, {1, 0});
  ValueId sum = ops::add(b, turned, ops::unary(b, "tanh", p));
  ValueId loss = ops::add(b, loss_of(ops::matmul(b, "nd,fd->nf", left, w)), loss_of(sum));
  differentiate_and_check(loss, {p, w});
}

TEST_F(DifferentiateTest, GivesNothingForWhatTheLossDoesNotReach) {
  ValueId x = parameter("x"), y = parameter("y");
  ValueId loss = loss_of(ops::unary(b, "tanh", x));
  ops::unary(b, "exp", y);
  std::vector<ValueId> gradients = differentiate_and_check(loss, {x, y});
  EXPECT_NE(gradients[0], kNoValue);
  EXPECT_EQ(gradients[1], kNoValue);
}

// Only nodes that depend on a value that requires a gradient are differentiated.
TEST_F(DifferentiateTest, AppendsNothingThatNobodyAskedFor) {
  ValueId x = b.input("x", {DType::kF32, {4, 6}}), w = parameter("w", {6, 6});
  ValueId y = ops::matmul(b, "nd,fd->nf", ops::unary(b, "tanh", x), w);
  differentiate_and_check(loss_of(y), {w});
  EXPECT_EQ(count_backward("matmul"), 1) << "the gradient of x was computed too";
}

TEST_F(DifferentiateTest, ScalesByTheSeed) {
  ValueId x = parameter("x");
  graph.outputs = {loss_of(x)};
  std::vector<ValueId> wanted{x};
  Graph quarter = graph, whole = graph;
  ValueId a = differentiate(quarter, ops::table(), graph.outputs[0], wanted, 0.25)[0];
  ValueId c = differentiate(whole, ops::table(), graph.outputs[0], wanted)[0];
  ops::NamedTensors named = draw_named(graph);
  ops::ReferenceRun scaled(quarter, named), plain(whole, named);
  for (size_t i = 0; i < 24; ++i) EXPECT_DOUBLE_EQ(scaled[a][i] * 4, plain[c][i]);
}

TEST_F(DifferentiateTest, CarriesOriginsWithTheBackwardPhase) {
  ValueId x = parameter("x");
  {
    auto scope = b.scope("layer.0");
    x = ops::unary(b, "tanh", x);
  }
  differentiate_and_check(loss_of(x), {graph.find("x")});
  std::vector<Origin> origins = distinct_origins(graph);
  for (size_t id = 0; id < graph.origins.size(); ++id)
    EXPECT_TRUE(std::binary_search(origins.begin(), origins.end(),
                                   Origin{static_cast<int32_t>(id), Phase::kBackward}))
        << graph.origins[id].op;
  for (const Node& node : graph.nodes) {
    if (node.phase == Phase::kBackward && node.op->kind != OpKind::kView) {
      EXPECT_FALSE(node.from.empty());
    }
  }
}

TEST_F(DifferentiateTest, RefusesALossThatIsNoScalarOrHasNoProducer) {
  ValueId x = parameter("x");
  std::vector<ValueId> wanted{x};
  EXPECT_THROW(differentiate(graph, ops::table(), ops::unary(b, "tanh", x), wanted), InternalError);
  EXPECT_THROW(differentiate(graph, ops::table(), parameter("scalar", {}), wanted), InternalError);
}

// A small model with its composites expanded: a few elements of each parameter's gradient.
TEST(Differentiate, MatchesDifferencesOnAWholeModel) {
  models::ForwardGraph forward = one_layer_forward();
  const Graph expanded = run_pass(expand_pass, forward.graph);
  Graph graph = expanded;
  std::vector<ValueId> wanted = parameters(graph);
  std::vector<ValueId> gradients = differentiate(graph, ops::table(), graph.outputs[0], wanted);
  verify(graph);
  ops::NamedTensors named = draw_named(graph);
  ops::ReferenceRun run(graph, named);
  Random random(8);
  for (size_t w = 0; w < wanted.size(); ++w) {
    std::vector<double>& x = named.at(graph.value(wanted[w]).name).data;
    for (int k = 0; k < 6; ++k) {
      size_t i = random.below(static_cast<uint32_t>(x.size()));
      double want = slope(expanded, named, x[i]);
      EXPECT_NEAR(run[gradients[w]][i], want, 1e-6 * std::max(1.0, std::abs(want)))
          << graph.value(wanted[w]).name;
    }
  }
}

// Random graphs: the derivative along a random direction.
TEST(Differentiate, MatchesDifferencesOnRandomGraphs) {
  for (uint32_t seed = 0; seed < 250; ++seed) {
    RandomGraph random(seed, {.nodes = 18});
    Graph graph = random.graph();
    Builder b(graph, ops::table());
    ValueId loss = kNoValue;
    for (ValueId output : random.graph().outputs) {
      std::vector<int64_t> axes;
      for (int axis = 0; axis < graph.shape(output).rank(); ++axis) axes.push_back(axis);
      ValueId sum =
          ops::reshape(b, ops::reduce_sum(b, ops::unary(b, "square", output), axes), Shape{});
      loss = loss == kNoValue ? sum : ops::add(b, loss, sum);
    }
    graph.outputs = {loss};
    const Graph forward = graph;
    std::vector<ValueId> wanted = parameters(graph);
    const std::vector<ValueId> gradients = differentiate(graph, ops::table(), loss, wanted);
    verify(graph);
    ops::NamedTensors named = random.named(), there = named, back = named;
    ops::ReferenceRun run(graph, named);
    Random direction(seed);
    double want = 0, step = 1e-6;
    for (size_t w = 0; w < wanted.size(); ++w) {
      const std::string& name = graph.value(wanted[w]).name;
      for (size_t i = 0; i < named.at(name).data.size(); ++i) {
        double d = ops::draw_normal(direction);
        there.at(name).data[i] += step * d;
        back.at(name).data[i] -= step * d;
        if (gradients[w] != kNoValue) want += d * run[gradients[w]][i];
      }
    }
    double above = ops::ReferenceRun(forward, there)[loss][0],
           below = ops::ReferenceRun(forward, back)[loss][0];
    ASSERT_NEAR((above - below) / (2 * step), want, 1e-5 * std::max(1.0, std::abs(want))) << seed;
  }
}

}  // namespace
}  // namespace ridge::passes
