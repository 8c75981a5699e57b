// SPDX-License-Identifier: Apache-2.0
// Builds the graphs of states of gradients.
#include "train/gradient_states.h"

#include "base/error.h"
#include "passes/tensor_shards.h"
#include "plan/rank_layout.h"

namespace ridge::train {
namespace {

// The states of gradients. Adds the parameters to `parameters`, unless it is null.
std::vector<ValueId> declare_gradients(Builder& b,
                                       const Graph& step,
                                       std::vector<ValueId>* parameters) {
  std::vector<ValueId> gradients;
  for (ValueId value : trained_parameters(step)) {
    const Value& parameter = step.value(value);
    if (parameters != nullptr) parameters->push_back(b.parameter(parameter.name, parameter.type));
    gradients.push_back(b.state(parameter.name + ".gradient", parameter.type));
  }
  return gradients;
}

void append_zeros(Builder& b, std::span<const ValueId> gradients) {
  b.set_phase(Phase::kOptimizer);
  auto scope = b.scope("optimizer");
  for (ValueId gradient : gradients) b.call("zero", {gradient});
}

// The first and the last stage have the table of a tied head.
void add_up_tied(Builder& b, TrainedValues& trained) {
  b.set_phase(Phase::kOptimizer);
  auto scope = b.scope("pipeline");
  const int64_t stages = trained.shared.stages;
  for (size_t i = 0; i < trained.parameters.size(); ++i)
    if (trained.shared.tied.contains(b.graph().value(trained.parameters[i]).name))
      trained.gradients[i] =
          b.call("all_reduce", {trained.gradients[i]},
                 {{"group", plan::stage_pair(stages - 1, 0, stages)}, {"ranks", int64_t{2}}});
}

}  // namespace

std::vector<ValueId> trained_parameters(const Graph& graph) {
  std::vector<ValueId> parameters;
  for (size_t i = 0; i < graph.values.size(); ++i)
    if (is_parameter(graph.values[i]) && !graph.values[i].frozen)
      parameters.push_back(static_cast<ValueId>(i));
  return parameters;
}

SharedGradients shared_gradients(const Graph& graph,
                                 const LoadGraph& load,
                                 std::span<const ValueId> parameters,
                                 const RankShare& share,
                                 const std::set<std::string>& tied) {
  SharedGradients shared{share.tensor_ranks, {}, share.stages, {}};
  for (const ValueId each : parameters) {
    const std::string& name = graph.value(each).name;
    const bool is_tied = tied.contains(name);
    if (is_tied) shared.tied.insert(name);
    if (share.tensor_ranks > 1 || share.stages > 1)
      shared.copies.push_back(passes::ranks_with_same(load, name, share.tensor_ranks) *
                              (is_tied ? 2 : 1));
  }
  return shared;
}

void accumulate_gradients(Builder& b, const TrainedValues& trained) {
  for (size_t i = 0; i < trained.parameters.size(); ++i) {
    const ValueId gradient = trained.gradients[i];
    const Node* producer = b.graph().producer(gradient);
    RIDGE_CHECK(producer != nullptr, "a gradient without a producer");
    auto derive = b.derive(producer->from, producer->scope, Phase::kBackward);
    const Value parameter = b.graph().value(trained.parameters[i]);
    b.call("accumulate", {b.state(parameter.name + ".gradient", parameter.type), gradient});
  }
}

void append_update(Builder& b,
                   const StepOptions& options,
                   const TrainedValues& trained,
                   const LossScaling* scaling,
                   StepGraph& step) {
  const AppendedUpdate made = append_adamw(b, options.optimizer, trained.parameters,
                                           trained.gradients, scaling, trained.shared);
  step.has_norm = made.squared_norm != kNoValue;
  step.has_scale = made.scale != kNoValue;
  for (const ValueId output : {made.squared_norm, made.scale, made.skipped_steps})
    if (output != kNoValue) b.graph().outputs.push_back(output);
}

StepGraph build_update(const Graph& step,
                       const OpTable& ops,
                       const StepOptions& options,
                       const LossScaling* scaling,
                       const SharedGradients& shared) {
  StepGraph update{"update", {}, 1, false};
  Builder b(update.graph, ops);
  TrainedValues trained;
  trained.shared = shared;
  trained.gradients = declare_gradients(b, step, &trained.parameters);
  add_up_tied(b, trained);
  append_update(b, options, trained, scaling, update);
  append_zeros(b, trained.gradients);
  return update;
}

Graph build_discard(const Graph& step, const OpTable& ops) {
  Graph discard;
  Builder b(discard, ops);
  append_zeros(b, declare_gradients(b, step, nullptr));
  return discard;
}

}  // namespace ridge::train
