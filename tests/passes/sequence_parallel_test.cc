// SPDX-License-Identifier: Apache-2.0
// Tests of sequence_parallel: between cut products a rank has a part of the tokens.
#include "passes/pass_trial.h"
#include "passes/tensor_shards.h"

namespace ridge::passes {
namespace {

constexpr int64_t kRanks = 2;

// The forward graph of a rank before the pass.
Graph sharded(LoadGraph& load, const models::ModelConfig& config = one_layer()) {
  const models::ForwardGraph forward = models::build_training_graph(config, ops::table(), 1, 4);
  load = forward.load;
  PassContext context{ops::table(), target(), load};
  context.number = kRanks;
  return run_train_tensor_parallel(forward.graph, context);
}

Graph in_parts(const Graph& graph, LoadGraph& load) {
  PassContext context{ops::table(), target(), load};
  const Graph after = run_sequence_parallel(graph, context);
  verify(after);
  verify_origins(graph, after);
  EXPECT_EQ(print(after), print(run_sequence_parallel(after, context))) << "it does not end";
  return after;
}

int64_t sent_bytes(const Graph& graph) {
  return cost::total(cost::node_costs(plan::plan(graph, target()))).sent_bytes;
}

TEST(SequenceParallel, ScattersSumsAndGathersBeforeCutProducts) {
  LoadGraph load;
  const Graph before = sharded(load);
  expect_golden("sequence_parallel.before.txt", print(before));
  const Graph after = in_parts(before, load);
  expect_golden("sequence_parallel.after.txt", print(after));
  EXPECT_EQ(count(after, "all_reduce"), 0);
  EXPECT_EQ(count(after, "reduce_scatter"), 3) << "the lookup, and both halves of the layer";
  EXPECT_EQ(count(after, "all_gather"), 1 + 3) << "the loss; before both halves and the head";
  for (const Node& node : after.nodes) {
    if (!is_a(node, ops::rms_norm_op())) continue;
    EXPECT_EQ(after.shape(node.outputs[0])[0], 4 / kRanks);
  }
  EXPECT_LT(planned_cost(after).peak_bytes, planned_cost(before).peak_bytes);
}

Graph step_of(const models::ModelConfig& config, const char* more, int64_t sequence = 4) {
  train::StepOptions options;
  options.batch_size = 1;
  options.sequence = sequence;
  options.shard = {0, 1, nullptr, 0, kRanks};
  return train::build_step(
             {config, options, Selection("fused", fmt::format("+train_tensor_parallel=2{}", more))},
             target())
      .graphs[0]
      .graph;
}

// A sum is a reduce_scatter and an all_gather: backward, each gather scatters and each scatter
// gathers. What is new are the gradients of the three norms.
TEST(SequenceParallel, SendsTheBytesOfSumsAndTheNormsOfItsTokens) {
  const int64_t norms = 3 * 2 * (16 * 4 / kRanks);
  EXPECT_EQ(sent_bytes(step_of(one_layer(), ",+sequence_parallel")),
            sent_bytes(step_of(one_layer(), "")) + norms);
}

// Their gradients are sums over the ranks' tokens.
TEST(SequenceParallel, BiasesAreOfTheTokensToo) {
  models::ModelConfig config = one_layer();
  config.output_bias = config.mlp_bias = true;
  const auto sums = [&](const char* more) { return count(step_of(config, more), "all_reduce"); };
  EXPECT_EQ(sums(",+sequence_parallel") - (sums("") - 6), 3 + 2) << "norms, biases of o and down";
}

TEST(SequenceParallel, RefusesTokensAndVocabulariesThatRanksDoNotDivide) {
  const auto error = [](const models::ModelConfig& config, int64_t sequence) -> std::string {
    try {
      step_of(config, ",+sequence_parallel", sequence);
    } catch (const Error& caught) {
      return caught.what();
    }
    return "";
  };
  EXPECT_EQ(error(one_layer(), 4), "");
  EXPECT_NE(error(one_layer(), 3).find("that 2 ranks divide, got 3"), std::string::npos);
  models::ModelConfig odd = one_layer();
  odd.vocabulary = 33;
  EXPECT_NE(error(odd, 4).find("expected a vocabulary that 2 ranks divide"), std::string::npos);
}

TEST(SequenceParallel, LeavesOtherGraphs) {
  LoadGraph load;
  const Graph before = one_layer_forward().graph;
  EXPECT_EQ(print(before), print(in_parts(before, load)));
}

}  // namespace
}  // namespace ridge::passes
