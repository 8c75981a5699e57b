// SPDX-License-Identifier: Apache-2.0
// Cuts a model between layers, and sends results around the ring of stages.
#include "serve/model_stage.h"

#include "graph/builder.h"
#include "models/forward_graph.h"
#include "models/inference_names.h"
#include "ops/build.h"
#include "ops/registry.h"
#include "passes/pipeline_stage.h"

namespace ridge::serve {

ModelStage model_stage(const models::ModelFile& file, int64_t index, int64_t count) {
  ModelStage stage{index, count};
  if (stage.is_whole()) return stage;
  // A token's products are nearly all that it takes, whatever the context.
  const models::InferenceShape token{.task = models::InferenceTask::kDecode,
                                     .cache = models::cache_shape({})};
  stage.first_layers = passes::cut_layers(
      models::build_inference_graph(file.config(), ops::table(), token, file.lookup()).graph,
      count);
  return stage;
}

Graph cut_stage(const Graph& forward, const ModelStage& stage, LoadGraph& load) {
  Graph graph = passes::cut_part(forward, ops::table(), {stage.index, stage.count, stage.count},
                                 stage.first_layers);
  passes::keep_parameters(load, {&graph, 1});
  Builder b(graph, ops::table());
  for (const Value& value : forward.values)
    if (value.storage == Storage::kInput) b.input(value.name, value.type);
  return graph;
}

void share_results(Graph& graph, const Graph& forward, const ModelStage& stage) {
  const bool samples = first_of(forward, ops::sample_op()) != nullptr;
  Builder b(graph, ops::table());
  const auto scope = b.scope("pipeline/results");
  const auto send = [&](ValueId value) {
    passes::send_to_next(b, value, stage.index, stage.count);
  };
  if (stage.is_last()) {
    if (samples) send(first_of(graph, ops::sample_op())->outputs[0]);
    graph.outputs[0] = ops::cast(b, graph.outputs[0], DType::kF32);
    return send(graph.outputs[0]);
  }
  // The stage before the last one is the end of the ring.
  const auto pass_on = [&](const Type& type, ValueId state) {
    const ValueId received =
        passes::receive_from_previous(b, type, stage.index, stage.count, state);
    if (stage.index + 2 < stage.count) send(received);
    return received;
  };
  if (samples) {
    const Type type = forward.type(forward.find(models::kTokens));
    pass_on(type, b.state(models::kTokens, type));
  }
  graph.outputs = {pass_on({DType::kF32, forward.shape(forward.outputs[0])}, kNoValue)};
}

}  // namespace ridge::serve
