// SPDX-License-Identifier: Apache-2.0
// Builds the graphs of a step from a configuration.
#include "train/step.h"

#include "base/error.h"
#include "models/forward_graph.h"
#include "passes/differentiate.h"

namespace ridge::train {
namespace {

std::vector<ValueId> parameters_of(const Graph& graph) {
  std::vector<ValueId> parameters;
  for (size_t i = 0; i < graph.values.size(); ++i)
    if (graph.values[i].storage == Storage::kParameter && graph.values[i].producer == kNoNode)
      parameters.push_back(static_cast<ValueId>(i));
  return parameters;
}

// Adds each gradient to a state "<name>.gradient", which the update reads and clears.
void accumulate_gradients(Builder& b,
                          std::span<const ValueId> parameters,
                          std::span<const ValueId> gradients) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Node* producer = b.graph().producer(gradients[i]);
    RIDGE_CHECK(producer != nullptr, "a gradient without a producer");
    auto derive = b.derive(producer->from, producer->scope, Phase::kBackward);
    const Value& parameter = b.graph().value(parameters[i]);
    std::string state_name = parameter.name + ".gradient";
    Type type = parameter.type;
    b.call("accumulate", {b.state(state_name, type), gradients[i]});
  }
}

Graph build_update(const Graph& step, const OpTable& ops, const OptimizerOptions& optimizer) {
  Graph update;
  Builder b(update, ops);
  std::vector<ValueId> parameters, gradients;
  for (ValueId value : parameters_of(step)) {
    const Value& parameter = step.value(value);
    parameters.push_back(b.parameter(parameter.name, parameter.type));
    gradients.push_back(b.state(parameter.name + ".gradient", parameter.type));
  }
  append_adamw(b, optimizer, parameters, gradients);
  auto scope = b.scope("optimizer");
  for (ValueId gradient : gradients) b.call("zero", {gradient});
  return update;
}

}  // namespace

TrainingStep build_step(const models::ModelConfig& config,
                        const StepOptions& options,
                        const passes::Selection& selection,
                        const OpTable& ops,
                        const passes::PassTarget& target,
                        const cost::Ceilings* ceilings) {
  if (options.sequence == 1)
    throw usage_error(
        "[seq-len] expected at least 2 tokens, because each token predicts the next, got 1");
  if (options.micro_batches < 1)
    throw usage_error("[train] expected micro-batches >= 1, got {}", options.micro_batches);
  if (selection.has("store_bf16"))
    throw usage_error(
        "[train] expected fp32 weights, but store_bf16 keeps them in bf16; autocast_bf16 computes "
        "in bf16 with fp32 master weights");
  models::ForwardGraph forward =
      models::build_training_graph(config, ops, options.batch_size, options.sequence);
  TrainingStep step;
  step.load = std::move(forward.load);
  passes::PassContext context{ops, target, step.load, ceilings, target.passes()};
  auto run = [&](passes::Stage stage, const Graph& graph) {
    return passes::run_stage(stage, graph, selection, context,
                             ceilings == nullptr ? nullptr : &step.passes);
  };
  Graph graph = run(passes::Stage::kForward, forward.graph);
  std::vector<ValueId> parameters = parameters_of(graph);
  double seed = 1.0 / static_cast<double>(options.micro_batches);
  std::vector<ValueId> gradients =
      passes::differentiate(graph, ops, graph.outputs[0], parameters, seed);
  Builder b(graph, ops);
  if (options.micro_batches == 1) {
    append_adamw(b, options.optimizer, parameters, gradients);
    step.graphs.push_back(
        {"step", run(passes::Stage::kTarget, run(passes::Stage::kStep, graph)), 1});
    return step;
  }
  accumulate_gradients(b, parameters, gradients);
  Graph update = build_update(graph, ops, options.optimizer);
  step.graphs.push_back({"accumulate",
                         run(passes::Stage::kTarget, run(passes::Stage::kStep, graph)),
                         options.micro_batches});
  step.graphs.push_back(
      {"update", run(passes::Stage::kTarget, run(passes::Stage::kStep, update)), 1});
  return step;
}

}  // namespace ridge::train
