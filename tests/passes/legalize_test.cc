// SPDX-License-Identifier: Apache-2.0
// Tests of legalize: it inserts a copy where a kernel does not support a view or no strides express
// one, and nowhere else.
#include "passes/pass_trial.h"

namespace ridge::passes {
namespace {

// Transposed views, which softmax rejects, matmul accepts and a reshape cannot express in strides,
// and flash attention, whose number of scores only the target knows.
Graph demanding() {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId x = b.input("x", {DType::kF32, {6, 8}});
  ValueId turned = ops::transpose(b, x, {1, 0});
  ValueId softmax = b.call("softmax", {turned});
  ValueId flat = ops::unary(b, "exp", ops::reshape(b, turned, {48}));
  ValueId product = ops::matmul(b, "nd,fd->nf", turned, turned);
  ValueId q = ops::reshape(b, ops::unary(b, "neg", x), {6, 1, 8});
  ValueId mixed = b.call_all("flash_attention", {q, q, q},
                             {{"sequence", int64_t{6}}, {"causal", true}, {"scale", 0.5}})[0];
  graph.outputs = {softmax, flat, product, mixed};
  return graph;
}

TEST(Legalize, PutsACopyWhereAViewIsNotTaken) {
  Graph before = demanding();
  Graph after = try_pass(legalize_pass, before);
  EXPECT_FALSE(legalize_pass.trade.empty());
  // One copy for the rows of softmax, which the reshape shares. The product reads the transposed
  // matrix as it is.
  EXPECT_GE(count(after, "copy"), 1);
  EXPECT_LE(count(after, "copy"), 2);
  for (const Node& node : after.nodes) {
    if (node.op->name == "matmul") {
      EXPECT_EQ(after.producer(node.inputs[0])->op->name, "transpose");
    }
    if (node.op->name == "softmax") {
      EXPECT_EQ(after.producer(node.inputs[0])->op->name, "copy");
    }
  }
}

TEST(Legalize, TellsFlashAttentionWhichScoresItsTilesCompute) {
  Graph after = run_pass(legalize_pass, demanding());
  for (const Node& node : after.nodes) {
    if (node.op->name != "flash_attention") continue;
    EXPECT_GE(node.attrs.integer("scores"), 6 * 7 / 2);
    EXPECT_GE(node.attrs.integer("scores_backward"), 6 * 7 / 2);
  }
}

TEST(Legalize, LeavesAGraphThatFitsAsItIs) {
  Graph graph = with_step(perceptron());
  EXPECT_EQ(print(run_pass(legalize_pass, graph)), print(graph));
}

TEST(Legalize, CopiesAreTheWorkOfThoseWhoNeedThem) {
  Graph after = run_pass(legalize_pass, demanding());
  for (const Node& node : after.nodes)
    if (node.op->name == "copy") {
      EXPECT_FALSE(node.from.empty());
    }
}

TEST(Legalize, NamesTheOpThatTheTargetCannotRun) {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId q = b.input("q", {DType::kF32, {4, 1, 12}});
  graph.outputs = {b.call_all("flash_attention", {q, q, q},
                              {{"sequence", int64_t{4}}, {"causal", true}, {"scale", 0.5}})[0]};
  try {
    run_pass(legalize_pass, graph);
    FAIL() << "a head size of 12 was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_NE(std::string(error.what())
                  .find("[flash_attention] expected a head size that is a multiple of 8"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace ridge::passes
