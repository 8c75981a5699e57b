// SPDX-License-Identifier: Apache-2.0
// Tests of data_parallel: gradients and the loss are averaged over ranks before the update.
#include "passes/pass_trial.h"

namespace ridge::passes {
namespace {

// The pass with a number of ranks, as "+data_parallel=4" runs it.
const Pass kOverFour{data_parallel_pass.name,
                     data_parallel_pass.stage,
                     data_parallel_pass.serves,
                     data_parallel_pass.summary,
                     data_parallel_pass.trade,
                     [](const Graph& graph, PassContext& context) {
                       context.number = 4;
                       return run_data_parallel(graph, context);
                     }};

std::vector<const Node*> reductions(const Graph& graph) {
  std::vector<const Node*> found;
  for (const Node& node : graph.nodes)
    if (node.op->name == "all_reduce") found.push_back(&node);
  return found;
}

// The gradient that each update reads comes from a reduction.
void expect_reduced_gradients(const Graph& graph) {
  int updates = 0;
  for (const Node& node : graph.nodes) {
    if (node.op->name != "adamw") continue;
    ++updates;
    const Node* producer = graph.producer(node.inputs[node.inputs.size() - 3]);
    ASSERT_NE(producer, nullptr);
    if (producer->op->name == "cast") producer = graph.producer(producer->inputs[0]);
    EXPECT_EQ(producer->op->name, "all_reduce") << print(graph, node);
  }
  EXPECT_GT(updates, 0);
}

TEST(DataParallel, AveragesGradientsAndTheLossTogether) {
  const Graph after = try_pass(kOverFour, with_step(perceptron()));
  ASSERT_EQ(count(after, "all_reduce"), 1) << "small gradients share a message with the loss";
  const Node& node = *reductions(after)[0];
  EXPECT_EQ(node.inputs.size(), 3u);
  EXPECT_EQ(node.attrs.integer("ranks"), 4);
  EXPECT_TRUE(node.attrs.flag("average"));
  expect_reduced_gradients(after);
  EXPECT_EQ(after.producer(after.outputs[0])->op->name, "all_reduce");
}

// The forward pass alone, as a stage of a pipeline has it behind its gradients.
TEST(DataParallel, AveragesALossThatTheLastNodeMakes) {
  const Graph before = perceptron();
  ASSERT_EQ(before.value(before.outputs[0]).producer + 1, std::ssize(before.nodes));
  const Graph after = run_pass(kOverFour, before);
  EXPECT_EQ(after.producer(after.outputs[0])->op->name, "all_reduce");
  expect_same_meaning(before, after, identity_load(before));
}

TEST(DataParallel, ExchangesNarrowGradientsInTheirType) {
  const Graph after = run_pass(kOverFour, with_step(run_pass(autocast_bf16_pass, perceptron())));
  expect_reduced_gradients(after);
  int narrow = 0;
  for (const ValueId input : reductions(after)[0]->inputs)
    narrow += after.type(input).dtype == DType::kBF16 ? 1 : 0;
  EXPECT_GT(narrow, 0);
}

TEST(DataParallel, ClipsByTheNormOfTheAverage) {
  train::OptimizerOptions options;
  options.clip_norm = 0.5;
  const Graph before = with_step(perceptron(), options), after = run_pass(kOverFour, before);
  for (const Node& node : after.nodes) {
    if (node.op->name != "sum_squares") continue;
    for (const ValueId input : node.inputs)
      EXPECT_EQ(after.producer(input)->op->name, "all_reduce");
  }
  expect_same_meaning(before, after, identity_load(before));
}

train::TrainingStep step_of(std::string_view switches, int64_t micro_batches = 1) {
  train::StepOptions options;
  options.batch_size = 2;
  options.sequence = 4;
  options.micro_batches = micro_batches;
  return train::build_step({one_layer(), options, Selection("compiled", switches)}, target());
}

TEST(DataParallel, ReducesOnceForAllMicroBatches) {
  const train::TrainingStep step = step_of("+data_parallel=2", 4);
  ASSERT_EQ(step.graphs.size(), 2u);
  const std::vector<const Node*> in_update = reductions(step.graphs[1].graph);
  ASSERT_EQ(in_update.size(), 1u);
  EXPECT_GT(in_update[0]->inputs.size(), 1u);
  // A micro-batch reduces its loss alone.
  const std::vector<const Node*> in_accumulate = reductions(step.graphs[0].graph);
  ASSERT_EQ(in_accumulate.size(), 1u);
  EXPECT_EQ(in_accumulate[0]->inputs.size(), 1u);
}

// 2 (ranks - 1) / ranks of the bytes of all gradients and of the loss.
TEST(DataParallel, SendsTheBytesOfARing) {
  const train::TrainingStep step = step_of("+data_parallel=4");
  const plan::PlannedGraph planned = plan::plan(step.graphs[0].graph, target());
  const int64_t bytes = 4 * (one_layer().parameters() + 1);
  EXPECT_EQ(cost::total(cost::node_costs(planned)).sent_bytes, 2 * ((bytes + 3) / 4) * 3);
  const plan::PlannedGraph alone = plan::plan(step_of("").graphs[0].graph, target());
  EXPECT_EQ(cost::total(cost::node_costs(alone)).sent_bytes, 0);
}

TEST(DataParallel, ModelWorkIsThatOfOneRank) {
  const Graph with = step_of("+data_parallel=4").graphs[0].graph,
              without = step_of("").graphs[0].graph;
  EXPECT_EQ(cost::model_totals(with).step(), cost::model_totals(without).step());
}

// A bucket begins its exchange before the backward pass ends.
TEST(DataParallel, ReducesLargeGradientsWhileTheBackwardPassRuns) {
  models::ModelConfig config = one_layer();
  config.layers = 4;
  config.hidden = 1024;
  config.heads = 8;
  config.kv_heads = 8;
  config.head_size = 128;
  config.feed_forward = 2048;
  train::StepOptions options;
  options.batch_size = 1;
  options.sequence = 4;
  const Graph graph =
      train::build_step({config, options, Selection("kernels", "+data_parallel=2")}, target())
          .graphs[0]
          .graph;
  EXPECT_GT(count(graph, "all_reduce"), 3);
  size_t first = graph.nodes.size(), last_backward = 0;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].op->name == "all_reduce") first = std::min(first, i);
    if (graph.nodes[i].op->name == "matmul") last_backward = i;
  }
  EXPECT_LT(first, last_backward);
}

TEST(DataParallel, TakesANumberOfRanks) {
  EXPECT_EQ(print(step_of("+data_parallel").graphs[0].graph), print(step_of("").graphs[0].graph));
  EXPECT_THROW(step_of("+data_parallel=0"), Error);
  EXPECT_EQ(print(step_of("+data_parallel=1").graphs[0].graph), print(step_of("").graphs[0].graph));
}

}  // namespace
}  // namespace ridge::passes
