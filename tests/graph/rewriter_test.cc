// SPDX-License-Identifier: Apache-2.0
// The rewriter: copies, replacements, dropped values, dead nodes, order of nodes.
#include "graph/rewriter.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "graph/random_graph.h"
#include "graph/text_form.h"
#include "graph/verifier.h"

namespace ridge {
namespace {

const auto kCopyAll = [](Rewriter&, NodeId) { return false; };

void expect_same_meaning(const RandomGraph& random, const Graph& rewritten) {
  std::vector<Tensor64> want = ops::ReferenceRun(random.graph(), random.named()).outputs();
  ops::ReferenceRun run(rewritten, random.named());
  std::vector<Tensor64> got = run.outputs();
  ASSERT_EQ(want.size(), got.size());
  for (size_t o = 0; o < want.size(); ++o) ASSERT_EQ(want[o].data, got[o].data);
  ops::NamedTensors before = ops::ReferenceRun(random.graph(), random.named()).stored(),
                    after = run.stored();
  for (const auto& [name, tensor] : before) ASSERT_EQ(tensor.data, after.at(name).data) << name;
}

TEST(Rewriter, CopiesEveryLiveNode) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    RandomGraph random(seed, {.nodes = 20, .bf16 = true, .updates = true});
    Graph old = random.graph();
    Graph copy = Rewriter(old, ops::table()).run(kCopyAll);
    verify(copy);
    expect_same_meaning(random, copy);
    // A second copy is identical; not even ids change.
    EXPECT_EQ(print(copy), print(Rewriter(copy, ops::table()).run(kCopyAll)));
    EXPECT_EQ(print(copy), print(without_dead_nodes(copy)));
  }
}

TEST(Rewriter, DropsDeadNodesButKeepsUpdatesAndNames) {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId x = b.input("x", {DType::kF32, {4}});
  ValueId total = b.state("total", {DType::kF32, {4}});
  b.parameter("unread", {DType::kF32, {4}});
  ValueId unread = ops::unary(b, "exp", ops::unary(b, "tanh", x));
  ValueId term = ops::unary(b, "sigmoid", x);
  b.call("accumulate", {total, term});
  graph.outputs = {ops::unary(b, "neg", x)};
  Graph live = without_dead_nodes(graph);
  verify(live);
  std::vector<std::string> ops_left;
  for (const Node& node : live.nodes) ops_left.push_back(node.op->name);
  EXPECT_EQ(ops_left, (std::vector<std::string>{"sigmoid", "accumulate", "neg"}));
  EXPECT_NE(live.find("unread"), kNoValue);
  EXPECT_NE(unread, kNoValue);
  EXPECT_EQ(live.origins.size(), graph.origins.size());  // records stay: ids must not change
}

TEST(Rewriter, ReplacesAndDrops) {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId x = b.input("x", {DType::kF32, {4}});
  ValueId w = b.parameter("w", {DType::kF32, {4}});
  graph.outputs = {ops::unary(b, "neg", ops::mul(b, x, w))};
  Rewriter rewriter(graph, ops::table());
  Graph made = rewriter.run([&](Rewriter& r, NodeId id) {
    const Node& node = r.old().node(id);
    if (node.op->name != "mul") return false;
    EXPECT_FALSE(r.is_mapped(node.outputs[0]));
    auto derive = r.builder().derive(node);
    r.replace(node.outputs[0], ops::scale(r.builder(), r.map(x), 3));
    r.drop(w);
    return true;
  });
  verify(made);
  verify_origins(graph, made);
  EXPECT_EQ(made.find("w"), kNoValue);
  EXPECT_EQ(made.nodes[0].op->name, "scale");
  EXPECT_EQ(ops::ReferenceRun(made, {{"x", {{DType::kF32, {4}}, {1, 2, 3, 4}}}})[made.outputs[0]],
            (std::vector<double>{-3, -6, -9, -12}));
}

TEST(Rewriter, RefusesOtherTypesAndEarlyReads) {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId x = b.input("x", {DType::kF32, {4}});
  ValueId first = ops::unary(b, "tanh", x);
  graph.outputs = {ops::unary(b, "neg", first)};
  Rewriter rewriter(graph, ops::table());
  EXPECT_THROW(rewriter.map(first), InternalError);
  ValueId narrow = ops::cast(rewriter.builder(), rewriter.map(x), DType::kBF16);
  ValueId other_shape = ops::slice(rewriter.builder(), rewriter.map(x), 0, 0, 2);
  EXPECT_THROW(rewriter.replace(first, narrow), InternalError);
  EXPECT_THROW(rewriter.replace(first, other_shape), InternalError);
  EXPECT_THROW(rewriter.retype(first, other_shape), InternalError);
  rewriter.retype(first, narrow);
  EXPECT_EQ(rewriter.map(first), narrow);
}

// Dropping a value that is still read is an error of the pass.
TEST(Rewriter, RefusesToDropWhatIsRead) {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId x = b.input("x", {DType::kF32, {4}});
  graph.outputs = {ops::unary(b, "tanh", x)};
  Rewriter rewriter(graph, ops::table());
  rewriter.drop(x);
  EXPECT_THROW(rewriter.run(kCopyAll), InternalError);
}

}  // namespace
}  // namespace ridge
