// SPDX-License-Identifier: Apache-2.0
// Cuts a model between layers, and sends results around the ring of stages.
#include "serve/model_stage.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "graph/builder.h"
#include "models/forward_graph.h"
#include "models/inference_names.h"
#include "ops/build.h"
#include "ops/registry.h"
#include "passes/pipeline_stage.h"
#include "plan/rank_layout.h"

namespace ridge::serve {
namespace {

Attrs between(int64_t from, int64_t to, int64_t stages) {
  return {{"group", plan::stage_pair(from, to, stages)}, {"ranks", int64_t{2}}};
}

// The ring of the stages: the last one begins, and the one before it ends.
class Ring {
 public:
  Ring(Builder& b, const ModelStage& stage) : b_(b), stage_(stage) {}

  void send(ValueId value) const {
    const int64_t next = (stage_.index + 1) % stage_.count;
    b_.call("send", {value}, between(stage_.index, next, stage_.count));
  }
  ValueId pass_on(std::vector<ValueId> state, const Type& type) const {
    Attrs attrs =
        between((stage_.index + stage_.count - 1) % stage_.count, stage_.index, stage_.count);
    if (state.empty()) {
      attrs.set("shape", type.shape.to_vector());
      attrs.set("dtype", std::string(name(type.dtype)));
    }
    const ValueId received = b_.call("receive", std::move(state), attrs);
    if (stage_.index + 2 < stage_.count) send(received);
    return received;
  }

 private:
  Builder& b_;
  const ModelStage& stage_;
};

const Node* find_sample(const Graph& graph) {
  const auto found = std::ranges::find_if(
      graph.nodes, [](const Node& node) { return is_a(node, ops::sample_op()); });
  return found == graph.nodes.end() ? nullptr : &*found;
}

}  // namespace

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

Graph cut_stage(const Graph& forward, const ModelStage& stage) {
  Graph graph = passes::cut_part(forward, ops::table(), {stage.index, stage.count, stage.count},
                                 stage.first_layers);
  Builder b(graph, ops::table());
  for (const Value& value : forward.values)
    if (value.storage == Storage::kInput) b.input(value.name, value.type);
  return graph;
}

void keep_own_weights(LoadGraph& load, const Graph& graph) {
  std::erase_if(load.stored, [&](const auto& each) { return graph.find(each.first) == kNoValue; });
}

void share_results(Graph& graph, const Graph& forward, const ModelStage& stage) {
  const bool samples = find_sample(forward) != nullptr;
  Builder b(graph, ops::table());
  const auto scope = b.scope("pipeline/results");
  const Ring ring(b, stage);
  if (stage.is_last()) {
    if (samples) ring.send(find_sample(graph)->outputs[0]);
    graph.outputs[0] = ops::cast(b, graph.outputs[0], DType::kF32);
    ring.send(graph.outputs[0]);
    return;
  }
  if (samples) {
    const Type type = forward.type(forward.find(models::kTokens));
    ring.pass_on({b.state(models::kTokens, type)}, type);
  }
  graph.outputs = {ring.pass_on({}, {DType::kF32, forward.shape(forward.outputs[0])})};
}

}  // namespace ridge::serve
