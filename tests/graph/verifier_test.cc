// SPDX-License-Identifier: Apache-2.0
// The verifier: each rule of its table, and the rules about whole graphs, is broken once and must
// be reported by name.
#include "graph/verifier.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "base/error.h"
#include "graph/random_graph.h"

namespace ridge {
namespace {

std::string violation(const Graph& graph) {
  try {
    verify(graph);
  } catch (const InternalError& error) {
    return error.what();
  }
  return "";
}

// total += tanh(x); returns exp(x). Six values, three nodes.
Graph small_graph() {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId x = b.input("x", {DType::kF32, {2, 3}});
  ValueId total = b.state("total", {DType::kF32, {2, 3}});
  ValueId term = ops::unary(b, "tanh", x);
  b.call("accumulate", {total, term});
  graph.outputs = {ops::unary(b, "exp", x)};
  return graph;
}

TEST(Verifier, PassesWhatTheBuilderMakes) {
  EXPECT_EQ(violation(small_graph()), "");
  for (uint32_t seed = 0; seed < 200; ++seed)
    ASSERT_EQ(violation(RandomGraph(seed, {.nodes = 20, .bf16 = true, .updates = true}).graph()),
              "")
        << seed;
}

TEST(Verifier, ReportsEachRuleByName) {
  const std::map<std::string_view, std::function<void(Graph&)>> breaks = {
      {"producers_first", [](Graph& g) { g.nodes[0].inputs[0] = g.nodes[2].outputs[0]; }},
      {"outputs_are_its_own", [](Graph& g) { g.value(g.nodes[0].outputs[0]).producer = kNoNode; }},
      {"shapes_follow_the_op",
       [](Graph& g) {
         g.value(g.nodes[2].outputs[0]).type.shape = {3, 2};
       }},
      {"attrs_are_declared", [](Graph& g) { g.nodes[2].op = &ops::table().at("softmax"); }},
      {"work_has_origins", [](Graph& g) { g.nodes[0].from.clear(); }},
      {"updates_match_types",
       [](Graph& g) { g.value(g.nodes[1].inputs[0]).storage = Storage::kInput; }},
  };
  ASSERT_EQ(breaks.size(), rules().size());
  for (const Rule& rule : rules()) {
    ASSERT_TRUE(breaks.contains(rule.name)) << rule.name;
    Graph graph = small_graph();
    breaks.at(rule.name)(graph);
    std::string what = violation(graph);
    EXPECT_NE(what.find("[verifier] " + std::string(rule.name) + ":"), std::string::npos)
        << rule.name << ": " << what;
    EXPECT_NE(what.find(rule.reason), std::string::npos) << what;
    EXPECT_NE(what.find(" at node "), std::string::npos) << what;
  }
}

TEST(Verifier, OtherWaysToBreakARule) {
  Graph graph = small_graph();
  graph.nodes[0].inputs[0] = 99;
  EXPECT_NE(violation(graph).find("producers_first"), std::string::npos);
  graph = small_graph();
  graph.nodes[0].from = {{7, Phase::kForward}};
  EXPECT_NE(violation(graph).find("origin 7 has no record"), std::string::npos);
  graph = small_graph();
  graph.nodes[0].from = {{1, Phase::kForward}, {0, Phase::kForward}};
  EXPECT_NE(violation(graph).find("not sorted and distinct"), std::string::npos);
}

// Reads a buffer after an update in place, through `read` of its old version.
std::string stale_read(const std::function<ValueId(Builder&, ValueId)>& read_before_update) {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId total = b.state("total", {DType::kF32, {4}});
  ValueId old = read_before_update(b, total);
  b.call("accumulate", {total, b.input("x", {DType::kF32, {4}})});
  graph.outputs = {ops::unary(b, "exp", old)};
  return violation(graph);
}

TEST(Verifier, RefusesReadsOfAnOverwrittenVersion) {
  std::string direct = stale_read([](Builder&, ValueId total) { return total; });
  EXPECT_NE(direct.find("no_stale_reads: %0 was overwritten before"), std::string::npos) << direct;
  std::string view = stale_read([](Builder& b, ValueId total) {
    return ops::reshape(b, total, {2, 2});
  });
  EXPECT_NE(view.find("no_stale_reads"), std::string::npos) << view;
  std::string view_of_view = stale_read([](Builder& b, ValueId total) {
    return ops::transpose(b, ops::reshape(b, total, {2, 2}), {1, 0});
  });
  EXPECT_NE(view_of_view.find("no_stale_reads"), std::string::npos) << view_of_view;
  std::string copy = stale_read([](Builder& b, ValueId total) { return b.call("copy", {total}); });
  EXPECT_EQ(copy, "");
}

TEST(Verifier, RefusesAnUpdateOfAnOldVersion) {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId total = b.state("total", {DType::kF32, {4}});
  ValueId x = b.input("x", {DType::kF32, {4}});
  b.call("accumulate", {total, x});
  b.call("accumulate", {total, x});
  EXPECT_NE(violation(graph).find("no_stale_reads"), std::string::npos);
}

TEST(Verifier, RefusesToReturnAnOverwrittenVersion) {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId total = b.state("total", {DType::kF32, {4}});
  ValueId next = b.call("accumulate", {total, b.input("x", {DType::kF32, {4}})});
  graph.outputs = {next};
  EXPECT_EQ(violation(graph), "");
  graph.outputs = {total};
  EXPECT_NE(violation(graph).find("the graph returns %0, which was overwritten"),
            std::string::npos);
}

// Accumulating a GEMM onto a temporary in place ends that temporary.
TEST(Verifier, RefusesReadsOfAnAccumulatedTemporary) {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId x = b.input("x", {DType::kF32, {2, 2}});
  ValueId sum = ops::unary(b, "tanh", x);
  ValueId product = b.call("matmul", {x, x, sum}, {{"einsum", std::string("ab,cb->ac")}});
  graph.outputs = {ops::add(b, product, sum)};
  EXPECT_NE(violation(graph).find("no_stale_reads"), std::string::npos);
}

TEST(Verifier, ReportsALostOrigin) {
  Graph before = small_graph(), after = small_graph();
  verify_origins(before, after);
  after.nodes[2].from = after.nodes[0].from;
  try {
    verify_origins(before, after);
    FAIL() << "a lost origin was not noticed";
  } catch (const InternalError& error) {
    EXPECT_STREQ(error.what(),
                 "[verifier] no_lost_origin: exp '2' in '' (forward) is gone after the rewrite");
  }
  // A node may have several origins.
  after.nodes[2].from = {{0, Phase::kForward}, {2, Phase::kForward}};
  verify_origins(before, after);
  // The phase is part of the origin.
  after.nodes[2].from = {{0, Phase::kForward}, {2, Phase::kBackward}};
  EXPECT_THROW(verify_origins(before, after), InternalError);
}

}  // namespace
}  // namespace ridge
