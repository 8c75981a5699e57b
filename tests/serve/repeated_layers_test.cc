// SPDX-License-Identifier: Apache-2.0
// A graph of few layers, repeated, is the graph that the passes make of all layers.
#include "serve/repeated_layers.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <tuple>

#include "backends/null/null_backend.h"
#include "cost/costed_graph.h"
#include "cost/hardware.h"
#include "cost/predict.h"
#include "graph/text_form.h"
#include "graph/verifier.h"
#include "models/known_shapes.h"
#include "serve/bucket.h"
#include "serve/real_model.h"
#include "serve/session_choice.h"

namespace ridge::serve {
namespace {

models::InferenceShape shape_of(models::InferenceTask task,
                                const models::ModelConfig& config,
                                int64_t tokens,
                                int64_t rows) {
  SessionOptions options;
  options.slots = 4;
  options.capacity = 640;
  const models::CacheShape cache = cache_of(checked(options, config), config);
  return bucket_shape(task, tokens, 300, rows, true, cache);
}

// The same nodes, with the same work, memory and predicted time; only ids of values may differ.
void expect_same(const Graph& graph, const Graph& whole, const plan::Target& target) {
  verify(graph);
  ASSERT_EQ(graph.nodes.size(), whole.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node &node = graph.nodes[i], &other = whole.nodes[i];
    ASSERT_EQ(node.op, other.op) << i;
    ASSERT_EQ(node.scope, other.scope) << i;
    ASSERT_EQ(node.attrs, other.attrs) << i;
    ASSERT_EQ(node.from, other.from) << i;
    ASSERT_EQ(node.inputs.size(), other.inputs.size()) << i;
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const Value &input = graph.value(node.inputs[k]), &same = whole.value(other.inputs[k]);
      ASSERT_EQ(input.name, same.name) << i;
      ASSERT_EQ(input.type, same.type) << i;
      ASSERT_EQ(input.producer, same.producer) << i;
    }
  }
  ASSERT_EQ(graph.origins.size(), whole.origins.size());
  for (size_t i = 0; i < graph.origins.size(); ++i)
    ASSERT_EQ(graph.origins[i].scope, whole.origins[i].scope) << i;
  const cost::CostedGraph mine = cost::count(plan::plan(graph, target)),
                          all = cost::count(plan::plan(whole, target));
  EXPECT_EQ(mine.memory.arena_bytes, all.memory.arena_bytes);
  EXPECT_EQ(mine.memory.owned_bytes(), all.memory.owned_bytes());
  EXPECT_EQ(cost::total(mine.costs).bytes(), cost::total(all.costs).bytes());
  EXPECT_EQ(cost::model_totals(graph).forward, cost::model_totals(whole).forward);
  const cost::Ceilings ceilings = cost::ceilings_of(*cost::find_hardware("h200"));
  EXPECT_EQ(cost::predict_run_ns(mine, ceilings), cost::predict_run_ns(all, ceilings));
}

void expect_repeats(const models::ModelConfig& config,
                    const char* level,
                    const char* switches,
                    const passes::PassTarget& target,
                    bool on_gpu) {
  const auto few = with_few_layers(config);
  if (!few) return;
  EXPECT_LT(few->layers, config.layers);
  const models::ModelFile thin = models::ModelFile::of_shape(*few),
                          file = models::ModelFile::of_shape(config);
  const passes::Selection selection = inference_selection({.on_gpu = on_gpu}, level, switches);
  for (const auto& [task, tokens, rows] :
       {std::tuple(models::InferenceTask::kDecode, int64_t{4}, int64_t{4}),
        {models::InferenceTask::kPrefill, 96, 2},
        {models::InferenceTask::kPrefill, 96, 0}}) {
    SCOPED_TRACE(fmt::format("{} at {}{}, {} tokens, {} rows", config.name, level, switches,
                             tokens, rows));
    const models::InferenceShape shape = shape_of(task, config, tokens, rows);
    const auto repeated =
        with_all_layers(build_bucket(thin, shape, selection, target).graph, *few, config);
    ASSERT_TRUE(repeated.has_value());
    expect_same(*repeated, build_bucket(file, shape, selection, target).graph, target);
  }
}

TEST(RepeatedLayers, AreTheLayersOfKnownShapes) {
  const auto gpu = backends::null::make_null_target();
  for (const models::ModelConfig& each : models::known_shapes()) {
    models::ModelConfig config = each;
    if (config.window == 0) config.layers = 7, config.is_window_layer.clear();
    for (const char* level : {"baseline", "compiled"}) expect_repeats(config, level, "", *gpu, true);
    expect_repeats(config, "compiled", "", cpu_backend(), false);
  }
}

TEST(RepeatedLayers, AreThoseOfRanksThatShareAModel) {
  const auto gpu = backends::null::make_null_target();
  models::ModelConfig config = *models::find_known_shape("llama-2-7b");
  config.layers = 7;
  expect_repeats(config, "compiled", "+shard_tensor_parallel=4", *gpu, true);
}

TEST(RepeatedLayers, AreTwoThenOneOfEachKindAndTheLast) {
  const models::ModelConfig config = *models::find_known_shape("gemma3-270m");
  ASSERT_EQ(config.layers, 18);
  const auto few = with_few_layers(config);
  ASSERT_TRUE(few.has_value());
  EXPECT_EQ(few->is_window_layer, (std::vector<bool>{true, true, true, false, false}));
  EXPECT_EQ(few->layers, 5);
}

TEST(RepeatedLayers, AreNoneOfAFlatModel) {
  models::ModelConfig config = *models::find_known_shape("llama-2-7b");
  for (int64_t layers = 1; layers <= 4; ++layers) {
    config.layers = layers;
    EXPECT_FALSE(with_few_layers(config).has_value()) << layers;
  }
  config.layers = 5;
  EXPECT_EQ(with_few_layers(config)->layers, 4);
}

}  // namespace
}  // namespace ridge::serve
