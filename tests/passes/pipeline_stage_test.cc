// SPDX-License-Identifier: Apache-2.0
// Tests of the parts that a model is cut into, and of the step of a stage.
#include "passes/pipeline_stage.h"

#include "models/forward_graph.h"
#include "passes/pass_trial.h"
#include "plan/collectives.h"

namespace ridge::passes {
namespace {

models::ModelConfig layers(int64_t count, bool tied = false) {
  models::ModelConfig config = one_layer();
  config.layers = count;
  config.tied_head = tied;
  return config;
}

Graph forward_of(const models::ModelConfig& config) {
  return models::build_training_graph(config, ops::table(), 2, 4, models::Packing::kNone).graph;
}

train::TrainingStep step_of(int64_t stage,
                            int64_t stages,
                            const train::PipelineOptions& pipeline = {},
                            bool tied = false,
                            std::string_view switches = "",
                            int64_t micro_batches = 4,
                            const train::RankShare& share = {}) {
  train::StepOptions options;
  options.shard = share;
  options.batch_size = 2;
  options.sequence = 4;
  options.micro_batches = micro_batches;
  options.evaluates = true;
  options.optimizer.clip_norm = 1;
  options.shard.stage = stage, options.shard.stages = stages;
  options.pipeline = pipeline;
  return train::build_step({layers(4, tied), options, Selection("compiled", switches)}, target());
}

std::string collectives_of(const train::TrainingStep& step) {
  std::vector<plan::Collective> all;
  for (const train::StepGraph& each : step.graphs)
    plan::append_collectives(each.name, each.graph, all);
  plan::append_collectives("evaluation", *step.evaluation, all);
  return plan::collectives_text(all);
}

TEST(PipelineStage, PartsHaveTheModelsWork) {
  const Graph whole = forward_of(layers(5));
  const std::vector<int64_t> cuts = cut_layers(whole, 3);
  ASSERT_EQ(cuts.size(), 4u);
  EXPECT_EQ(cuts.front(), 0);
  EXPECT_EQ(cuts.back(), 5);
  int64_t flops = 0;
  for (int64_t part = 0; part < 3; ++part) {
    EXPECT_LT(cuts[static_cast<size_t>(part)], cuts[static_cast<size_t>(part) + 1]);
    const Graph own = cut_part(whole, ops::table(), {part, 3, 3}, cuts);
    EXPECT_EQ(count(own, "receive"), part > 0 ? 1 : 0);
    EXPECT_EQ(count(own, "send"), part < 2 ? 1 : 0);
    EXPECT_EQ(own.outputs.size(), part == 2 ? 1u : 0u);
    EXPECT_EQ(own.find("ids") != kNoValue, part == 0);
    EXPECT_EQ(own.find("labels") != kNoValue, part == 2);
    flops += cost::model_totals(own).step().flops;
  }
  EXPECT_GE(flops, cost::model_totals(whole).step().flops);
  EXPECT_THROW(cut_layers(whole, 6), Error);
}

// A large head takes the place of layers.
TEST(PipelineStage, CutsByTheTimeOfParts) {
  models::ModelConfig config = layers(8);
  EXPECT_EQ(cut_layers(forward_of(config), 2)[1], 4);
  config.vocabulary = 64 * config.vocabulary;
  EXPECT_GT(cut_layers(forward_of(config), 2)[1], 4);
}

TEST(PipelineStage, EveryScheduleSendsWhatTheOtherReceives) {
  using enum PipelineOrder;
  for (const train::PipelineOptions& pipeline :
       {train::PipelineOptions{kOneForwardOneBackward, 1}, train::PipelineOptions{kInterleaved, 2},
        train::PipelineOptions{kZeroBubble, 1}})
    for (const bool tied : {false, true})
      for (const char* switches : {"", "+autocast_bf16", "+recompute"}) {
        std::vector<std::string> texts;
        for (int64_t stage = 0; stage < 2; ++stage)
          texts.push_back(collectives_of(step_of(stage, 2, pipeline, tied, switches)));
        EXPECT_EQ(plan::first_mismatch(texts, {.pipeline = 2}), "") << switches;
        EXPECT_EQ(texts[0].find("bf16[8,") != std::string::npos,
                  std::string_view(switches) == "+autocast_bf16");
      }
}

// The ranks of a stage and of its copies, in each schedule, with a table on two stages and without.
TEST(PipelineStage, StagesOfSeveralRanksMatch) {
  using enum PipelineOrder;
  struct Case {
    plan::RankLayout layout;
    const char* switches;
  };
  for (const Case& each :
       {Case{{.tensor = 2, .pipeline = 2}, "+train_tensor_parallel=2,+sequence_parallel"},
        Case{{.data = 2, .pipeline = 2}, "+zero=2"}, Case{{.data = 2, .pipeline = 2}, "+zero=3"},
        Case{{2, 2, 2}, "+zero=3,+train_tensor_parallel=2,+sequence_parallel,+autocast_bf16"}})
    for (const train::PipelineOptions& pipeline :
         {train::PipelineOptions{kInterleaved, 2}, train::PipelineOptions{kZeroBubble, 1}}) {
      std::vector<std::string> texts;
      for (int64_t rank = 0; rank < each.layout.ranks(); ++rank)
        texts.push_back(
            collectives_of(step_of(each.layout.stage(rank), 2, pipeline, true, each.switches, 4,
                                   {.rank = each.layout.data_rank(rank),
                                    .ranks = each.layout.data,
                                    .tensor_rank = each.layout.tensor_rank(rank),
                                    .tensor_ranks = each.layout.tensor})));
      EXPECT_EQ(plan::first_mismatch(texts, each.layout), "") << each.switches;
    }
}

TEST(PipelineStage, SendsTheTokensOfTheRank) {
  const train::TrainingStep step =
      step_of(0, 2, {}, false, "+train_tensor_parallel=2,+sequence_parallel", 4,
              {.tensor_rank = 1, .tensor_ranks = 2});
  int sends = 0;
  for (const Node& node : step.graphs[0].graph.nodes)
    if (node.op->name == "send") {
      EXPECT_EQ(step.graphs[0].graph.shape(node.inputs[0]), (Shape{2 * 4 / 2, 16}));
      ++sends;
    }
  EXPECT_EQ(sends, 4);
}

train::TrainingStep zero_step(int64_t zero, int64_t stage = 0) {
  return step_of(stage, 2, {}, true, fmt::format("+zero={}", zero), 4, {.rank = 1, .ranks = 2});
}

// Each micro-batch adds its part of the gradients to sums of half the size.
TEST(PipelineStage, AddsUpPartsOfGradients) {
  const auto bytes_of_sums = [](const Graph& graph) {
    int64_t bytes = 0;
    for (const Value& each : graph.values)
      if (each.storage == Storage::kState && each.producer == kNoNode &&
          each.name.find(".gradient") != std::string::npos)
        bytes += storage_bytes(each.type.dtype, each.type.shape.elements());
    return bytes;
  };
  for (const int64_t stage : {0, 1}) {
    const train::TrainingStep whole = zero_step(1, stage), parts = zero_step(2, stage);
    for (const size_t graph : {size_t{0}, size_t{1}})
      EXPECT_EQ(2 * bytes_of_sums(parts.graphs[graph].graph),
                bytes_of_sums(whole.graphs[graph].graph));
    EXPECT_EQ(count(whole.graphs[0].graph, "reduce_scatter"), 0);
    EXPECT_EQ(count(parts.graphs[0].graph, "reduce_scatter"), 4);
    EXPECT_EQ(count(parts.graphs[1].graph, "reduce_scatter"), 0);
  }
}

// A layer's parameters are gathered for each of its passes, and are free between them.
TEST(PipelineStage, GathersParametersForEachPass) {
  const Graph kept = zero_step(2).graphs[0].graph, freed = zero_step(3).graphs[0].graph;
  EXPECT_GE(count(freed, "all_gather"), 4 * count(kept, "all_gather"));
  const auto arena = [](const Graph& graph) {
    return plan::plan(graph, target()).memory.arena_bytes;
  };
  EXPECT_LT(arena(freed), arena(kept));
}

// The gradients of weights come after the gradient that the stage before waits for.
TEST(PipelineStage, PutsOffGradientsOfWeights) {
  const auto before_first_send = [](PipelineOrder order) {
    const train::TrainingStep step = step_of(1, 2, {order, 1});
    int products = 0;
    for (const Node& node : step.graphs[0].graph.nodes) {
      if (node.op->name == "send") break;
      products += node.op->name == "matmul" && node.phase == Phase::kBackward ? 1 : 0;
    }
    return products;
  };
  const int whole = before_first_send(PipelineOrder::kOneForwardOneBackward),
            split = before_first_send(PipelineOrder::kZeroBubble);
  EXPECT_GT(split, 0);
  EXPECT_LE(split, whole / 2 + 1);
  const auto nodes = [](PipelineOrder order) {
    return step_of(1, 2, {order, 1}).graphs[0].graph.nodes.size();
  };
  EXPECT_EQ(nodes(PipelineOrder::kZeroBubble), nodes(PipelineOrder::kOneForwardOneBackward));
}

// As many micro-batches are under way as there are stages, however many a step has.
TEST(PipelineStage, MemoryDoesNotGrowWithMicroBatches) {
  const auto arena = [](int64_t micro_batches) {
    const Graph graph = step_of(0, 2, {}, false, "", micro_batches).graphs[0].graph;
    return static_cast<double>(plan::plan(graph, target()).memory.arena_bytes);
  };
  EXPECT_LT(arena(16), 1.05 * arena(4));
}

// The stages share the work of a step, but each makes the table of rotations.
TEST(PipelineStage, StagesShareTheModelsWork) {
  int64_t flops = 0, repeated = 0;
  for (const int64_t stage : {0, 1}) {
    const train::TrainingStep step = step_of(stage, 2);
    ASSERT_EQ(step.graphs.size(), 2u);
    EXPECT_EQ(step.graphs[0].micro_batches, 4);
    EXPECT_EQ(step.graphs[0].graph.outputs.size(), 1u);
    const Graph& graph = step.graphs[0].graph;
    flops += cost::model_totals(graph).step().flops;
    for (const Origin& each : distinct_origins(graph))
      if (const OriginRecord& record = graph.origins[static_cast<size_t>(each.id)];
          stage == 1 && record.op == "rope_table")
        repeated += record.work.forward.flops;
  }
  const train::TrainingStep whole = step_of(0, 1);
  EXPECT_EQ(whole.graphs[0].repeat, 4);
  EXPECT_GT(repeated, 0);
  EXPECT_EQ(flops - repeated, 4 * cost::model_totals(whole.graphs[0].graph).step().flops);
}

TEST(PipelineStage, RefusesMoreStagesThanLayers) { EXPECT_THROW(step_of(0, 5), Error); }

}  // namespace
}  // namespace ridge::passes
