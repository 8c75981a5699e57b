// SPDX-License-Identifier: Apache-2.0
// Tests of train_tensor_parallel: the collectives of a step, what each rank stores, and what more
// than one has.
#include "passes/pass_trial.h"
#include "passes/tensor_shards.h"

namespace ridge::passes {
namespace {

constexpr int64_t kRanks = 2;

train::TrainingStep training_step(const models::ModelConfig& config,
                                  int64_t ranks,
                                  int64_t rank = 0,
                                  const char* more = "") {
  train::StepOptions options;
  options.batch_size = 2;
  options.sequence = 4;
  options.optimizer.clip_norm = 1;
  options.shard = {0, 1, nullptr, rank, ranks};
  return train::build_step(
      {config, options,
       Selection("kernels", fmt::format("+train_tensor_parallel={}{}", ranks, more))},
      target());
}

std::vector<const Node*> reductions(const Graph& graph, const char* group, Phase phase) {
  std::vector<const Node*> found;
  for (const Node& node : graph.nodes)
    if (node.op->name == "all_reduce" && node.attrs.text("group") == group && node.phase == phase)
      found.push_back(&node);
  return found;
}

TEST(TrainTensorParallel, CutsTheVocabularyUpToTheLoss) {
  models::ForwardGraph forward = models::build_training_graph(four_heads(2), ops::table(), 1, 4);
  expect_golden("train_tensor_parallel.before.txt", print(forward.graph));
  PassContext context{ops::table(), target(), forward.load};
  context.number = kRanks;
  const Graph after = run_train_tensor_parallel(forward.graph, context);
  verify(after);
  verify_origins(forward.graph, after);
  expect_golden("train_tensor_parallel.after.txt", print(after));
  EXPECT_EQ(print(after), print(parse_graph(print(after), ops::table())));
  EXPECT_EQ(print(after), print(run_train_tensor_parallel(after, context)));
}

// Forward: the lookup and both halves of the layer. Backward: the inputs of both halves and of the
// head. The norm is one number.
TEST(TrainTensorParallel, TrainsWithASumForEachCutProductInBothDirections) {
  const train::TrainingStep step = training_step(four_heads(2), kRanks);
  const Graph& graph = step.graphs[0].graph;
  EXPECT_EQ(reductions(graph, kTensorGroup, Phase::kForward).size(), 3u);
  const std::vector<const Node*> backward = reductions(graph, kTensorGroup, Phase::kBackward);
  EXPECT_EQ(backward.size(), 3u);
  for (const Node* each : backward) EXPECT_EQ(graph.shape(each->inputs[0]), Shape({8, 16}));
  const std::vector<const Node*> norms = reductions(graph, kTensorGroup, Phase::kOptimizer);
  ASSERT_EQ(norms.size(), 1u);
  EXPECT_EQ(graph.shape(norms[0]->inputs[0]), Shape{});
  EXPECT_EQ(count(graph, "all_gather"), 1) << "of the loss";
  EXPECT_EQ(count(graph, "cross_entropy_of_parts"), 1);
  EXPECT_EQ(graph.shape(graph.find("model.embed_tokens.weight")), Shape({16, 16}));
  EXPECT_EQ(graph.shape(graph.find("model.embed_tokens.weight.adamw_m")), Shape({16, 16}));
}

// All but the norms is in parts.
TEST(TrainTensorParallel, CountsWhatSeveralRanksHaveOnce) {
  const train::TrainingStep step = training_step(four_heads(2), 4);
  const auto copies = [&](const std::string& name) { return ranks_with_same(step.load, name, 4); };
  EXPECT_EQ(copies("model.embed_tokens.weight"), 1);
  EXPECT_EQ(copies("model.layers.0.self_attn.q_proj.weight"), 1);
  EXPECT_EQ(copies("model.layers.0.self_attn.k_proj.weight"), 2);
  EXPECT_EQ(copies("model.layers.0.mlp.down_proj.weight"), 1);
  EXPECT_EQ(copies("model.norm.weight"), 4);
}

TEST(TrainTensorParallel, RanksThatShareKvHeadsAddUpTheirGradients) {
  const Graph two = training_step(four_heads(2), 4).graphs[0].graph;
  const std::vector<const Node*> found = reductions(two, kKvHeadsGroup, Phase::kBackward);
  ASSERT_EQ(found.size(), 2u) << "those of k and v";
  for (const Node* each : found) {
    EXPECT_EQ(each->attrs.integer("ranks"), 2);
    EXPECT_EQ(two.shape(each->inputs[0]), Shape({8, 16}));
  }
  const Graph one = training_step(four_heads(1), 4).graphs[0].graph;
  EXPECT_TRUE(reductions(one, kKvHeadsGroup, Phase::kBackward).empty());
  EXPECT_EQ(reductions(one, kTensorGroup, Phase::kBackward).size(), 3u + 2u);
}

// The norm of each head has a part of its gradient from each rank's heads.
TEST(TrainTensorParallel, NormsOfHeadsAddUpTheirGradients) {
  models::ModelConfig config = four_heads(2);
  config.family = models::Family::kQwen3;
  const Graph graph = training_step(config, kRanks).graphs[0].graph;
  int of_norms = 0;
  for (const Node* each : reductions(graph, kTensorGroup, Phase::kBackward))
    of_norms += graph.shape(each->inputs[0]) == Shape{8} ? 1 : 0;
  EXPECT_EQ(of_norms, 2);
}

// An adapter's narrow product is the same on all ranks where its rows are cut, and added up where
// its columns are.
TEST(TrainTensorParallel, CutsAdapters) {
  train::StepOptions options;
  options.batch_size = 2;
  options.sequence = 4;
  options.lora.rank = 2;
  options.lora.targets = {"q_proj", "down_proj"};
  options.shard = {0, 1, nullptr, 1, kRanks};
  const train::TrainingStep step = train::build_step(
      {four_heads(2), options, Selection("kernels", "+lora,+train_tensor_parallel=2")}, target());
  const Graph& graph = step.graphs[0].graph;
  const auto shape = [&](const std::string& name) {
    return graph.shape(graph.find("model.layers.0." + name));
  };
  EXPECT_EQ(shape(fmt::format("self_attn.q_proj{}", kLoraA)), Shape({2, 16}));
  EXPECT_EQ(shape(fmt::format("self_attn.q_proj{}", kLoraB)), Shape({16, 2}));
  EXPECT_EQ(shape(fmt::format("mlp.down_proj{}", kLoraA)), Shape({2, 12}));
  EXPECT_EQ(shape(fmt::format("mlp.down_proj{}", kLoraB)), Shape({16, 2}));
}

// Ranks have the same graphs and other parts of the file.
TEST(TrainTensorParallel, RanksTrainOneGraph) {
  const train::TrainingStep first = training_step(four_heads(2), kRanks, 0),
                            second = training_step(four_heads(2), kRanks, 1);
  EXPECT_EQ(print(first.graphs[0].graph), print(second.graphs[0].graph));
  EXPECT_NE(print(first.load.graph), print(second.load.graph));
}

TEST(TrainTensorParallel, IdsAndLabelsCountFromThePartsFirst) {
  const std::vector<int32_t> indices{-1, 0, 15, 16, 31};
  EXPECT_EQ(indices_of_part(indices, {0, 16, 32}, -1), (std::vector<int32_t>{-1, 0, 15, -1, -1}));
  EXPECT_EQ(indices_of_part(indices, {16, 16, 32}, 16), (std::vector<int32_t>{-1, 16, 16, 0, 15}));
  EXPECT_THROW(indices_of_part(indices, {0, 15, 30}, -1), Error);
}

}  // namespace
}  // namespace ridge::passes
