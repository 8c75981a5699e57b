// SPDX-License-Identifier: Apache-2.0
// Builds the graphs of a step from a configuration.
#include "train/step.h"

#include "base/error.h"
#include "base/name_pattern.h"
#include "base/printable.h"
#include "models/forward_graph.h"
#include "ops/build.h"
#include "ops/registry.h"
#include "passes/differentiate.h"
#include "train/gradient_states.h"
#include "train/pipeline_step.h"

namespace ridge::train {
namespace {

void freeze(Graph& graph, std::span<const std::string> patterns) {
  for (const std::string& pattern : patterns) {
    bool found = false;
    std::string example;
    for (Value& value : graph.values) {
      if (!is_parameter(value)) continue;
      if (example.empty()) example = value.name;
      if (!matches_pattern(pattern, value.name)) continue;
      value.frozen = found = true;
    }
    if (!found)
      throw usage_error(
          "[freeze] expected a pattern that matches parameters, such as {} or *norm*, got {}",
          example, printable(pattern));
  }
  if (!patterns.empty() && trained_parameters(graph).empty())
    throw usage_error("[freeze] expected patterns that leave a parameter to train, all are frozen");
}

}  // namespace

TrainingStep build_step(const StepSetup& setup,
                        const passes::PassTarget& target,
                        const cost::Ceilings* ceilings) {
  const models::ModelConfig& config = setup.config;
  const StepOptions& options = setup.step;
  const passes::Selection& selection = setup.selection;
  const OpTable& ops = ops::table();
  if (options.sequence == 1)
    throw usage_error(
        "[seq-len] expected at least 2 tokens, because each token predicts the next, got 1");
  if (options.micro_batches < 1)
    throw usage_error("[train] expected micro-batches >= 1, got {}", options.micro_batches);
  if (selection.has("store_bf16"))
    throw usage_error(
        "[train] expected fp32 weights, but store_bf16 keeps them in bf16; autocast_bf16 computes "
        "in bf16 with fp32 master weights");
  if (selection.has("autocast_bf16") && selection.has("autocast_f16"))
    throw usage_error("[pass] expected one of autocast_bf16 and autocast_f16, got both");
  check(options.loss_scaling);
  const LossScaling* scaling = selection.has("autocast_f16") ? &options.loss_scaling : nullptr;
  models::ForwardGraph forward = models::build_training_graph(config, ops, options.batch_size,
                                                              options.sequence, options.packing);
  if (selection.has("lora") && !options.frozen.empty())
    throw usage_error("[freeze] expected no patterns with +lora, which freezes the whole model");
  freeze(forward.graph, options.frozen);
  TrainingStep step;
  step.load = std::move(forward.load);
  passes::PassContext context{
      ops,          target, step.load,          ceilings,           target.passes(),
      options.lora, {},     options.shard.rank, options.shard.ranks};
  step.load.rank = options.shard.tensor_rank;
  step.has_adapters = selection.has("lora");
  if (options.shard.stages > 1) {
    add_pipeline(forward.graph, setup, context, step);
    return step;
  }
  auto run = [&](passes::Stage stage, const Graph& graph) {
    return passes::run_stage(stage, graph, selection, context,
                             ceilings == nullptr ? nullptr : &step.passes);
  };
  Graph graph = run(passes::Stage::kForward, forward.graph);
  // Its passes are not recorded: the step's records are of the same ones.
  passes::PassContext unrecorded = context;
  unrecorded.ceilings = nullptr;
  auto unrecorded_stages = [&](const Graph& from) {
    return passes::run_stage(
        passes::Stage::kTarget,
        passes::run_stage(passes::Stage::kStep, from, selection, unrecorded, nullptr), selection,
        unrecorded, nullptr);
  };
  if (options.evaluates) step.evaluation = unrecorded_stages(graph);
  TrainedValues trained{trained_parameters(graph), {}, {}};
  trained.shared = shared_gradients(graph, step.load, trained.parameters, options.shard);
  const double seed = 1.0 / static_cast<double>(options.micro_batches);
  const ValueId loss = graph.outputs[0];
  trained.gradients =
      scaling == nullptr
          ? passes::differentiate(graph, ops, loss, trained.parameters, seed)
          : passes::differentiate(graph, ops, loss, trained.parameters, [seed](Builder& b) {
              return ops::scale(b, b.state(kLossScale, {DType::kF32, {}}), seed);
            });
  Builder b(graph, ops);
  auto finished = [&](const Graph& from) {
    return run(passes::Stage::kTarget, run(passes::Stage::kStep, from));
  };
  if (options.micro_batches == 1 && !options.separates_update) {
    StepGraph whole{"step", {}};
    append_update(b, options, trained, scaling, whole);
    whole.graph = finished(graph);
    step.graphs.push_back(std::move(whole));
    return step;
  }
  accumulate_gradients(b, trained);
  StepGraph update = build_update(graph, ops, options, scaling, trained.shared);
  step.graphs.push_back({"accumulate", finished(graph), options.micro_batches});
  update.graph = finished(update.graph);
  step.graphs.push_back(std::move(update));
  if (options.separates_update) step.discard = unrecorded_stages(build_discard(graph, ops));
  return step;
}

}  // namespace ridge::train
