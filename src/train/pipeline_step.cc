// SPDX-License-Identifier: Apache-2.0
// Cuts the model into parts, differentiates the parts of a stage, and joins them in the order of
// the schedule.
#include "train/pipeline_step.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "ops/build.h"
#include "passes/level_options.h"
#include "passes/passes.h"
#include "passes/pipeline_stage.h"
#include "train/gradient_states.h"

namespace ridge::train {
namespace {

using passes::Selection;
using passes::Stage;

class PipelineBuilder {
 public:
  PipelineBuilder(const StepSetup& setup, const passes::PassContext& context, TrainingStep& step)
      : o_(setup.step),
        selection_(setup.selection),
        context_(context),
        step_(step),
        shape_{o_.shard.stages, o_.pipeline.chunks, o_.micro_batches, o_.pipeline.order} {
    context_.ceilings = nullptr;
  }

  void add(const Graph& forward) {
    std::vector<Graph> parts = cut(adapted(forward));
    for (Graph& each : parts) each = run(Stage::kForward, each, selection_);
    std::optional<Graph> evaluation;
    if (o_.evaluates) evaluation = joined_evaluation(parts);
    for (Graph& each : parts) differentiate(each);
    const Graph whole = joined(parts, shape_);  // no copies exchange anything yet
    const SharedGradients shared =
        shared_gradients(whole, step_.load, trained_parameters(whole), o_.shard, tied_);
    StepGraph update = build_update(whole, context_.ops, o_, scaling(), shared);
    // After what reads the load: zero changes it.
    if (evaluation) step_.evaluation = exchanged(*evaluation);
    StepGraph all{"accumulate", exchanged(whole)};
    all.micro_batches = o_.micro_batches;
    update.graph = finished(update.graph);
    if (o_.separates_update) step_.discard = finished(build_discard(whole, context_.ops));
    step_.graphs.push_back(std::move(all));
    step_.graphs.push_back(std::move(update));
  }

 private:
  const LossScaling* scaling() const {
    return selection_.has("autocast_f16") ? &o_.loss_scaling : nullptr;
  }
  Graph run(Stage stage, const Graph& graph, const Selection& selection) {
    return passes::run_stage(stage, graph, selection, context_, nullptr);
  }
  Graph finished(const Graph& graph) {
    return run(Stage::kTarget, run(Stage::kStep, graph, selection_), selection_);
  }
  // The passes that exchange between copies of the model.
  std::string exchanges() const {
    std::string text;
    for (const char* each : {"data_parallel", "zero"})
      if (selection_.has(each)) text += (text.empty() ? "+" : ",+") + selection_.spelling(each);
    return text;
  }
  Selection without_exchanges() const {
    return Selection("baseline", passes::with_switch(selection_.str(), "-data_parallel,-zero"));
  }

  // Adapters are added while the graph has its loss: a part without one is not adapted.
  Graph adapted(const Graph& forward) {
    return selection_.has("lora") ? passes::run_lora(forward, context_) : forward;
  }

  std::vector<Graph> cut(const Graph& forward) {
    const std::vector<int64_t> first_layers = passes::cut_layers(forward, shape_.parts());
    const auto cut_one = [&](int64_t index) {
      return passes::cut_part(forward, context_.ops, {index, shape_.parts(), shape_.stages},
                              first_layers);
    };
    std::vector<Graph> parts;
    for (int64_t chunk = 0; chunk < shape_.chunks; ++chunk)
      parts.push_back(cut_one(chunk * shape_.stages + o_.shard.stage));
    if (o_.shard.stage == 0 || o_.shard.stage + 1 == shape_.stages)
      std::ranges::set_intersection(names_of(cut_one(0)), names_of(cut_one(shape_.parts() - 1)),
                                    std::inserter(tied_, tied_.end()));
    passes::keep_parameters(step_.load, parts);
    return parts;
  }
  static std::set<std::string> names_of(const Graph& graph) {
    std::set<std::string> names;
    for (const Value& each : graph.values)
      if (is_parameter(each)) names.insert(each.name);
    return names;
  }

  void differentiate(Graph& part) {
    const double seed = 1 / static_cast<double>(o_.micro_batches);
    TrainedValues trained{trained_parameters(part), {}, {}};
    if (trained.parameters.empty())
      throw usage_error(
          "[freeze] expected patterns that leave each part of the pipeline a "
          "parameter to train");
    trained.gradients =
        passes::differentiate_part(part, context_.ops, trained.parameters, [&](Builder& b) {
          if (scaling() == nullptr)
            return b.call("fill", {},
                          {{"shape", std::vector<int64_t>{}}, {"value", seed}, {"dtype", "f32"}});
          return ops::scale(b, b.state(kLossScale, {DType::kF32, {}}), seed);
        });
    Builder b(part, context_.ops);
    accumulate_gradients(b, trained);
  }

  // Joins the parts in the order of the schedule. Each is rewritten once, for all micro-batches.
  Graph joined(std::span<const Graph> parts, const passes::PipelineShape& shape) {
    std::vector<Graph> rewritten;
    for (const Graph& each : parts)
      rewritten.push_back(run(Stage::kStep, each, without_exchanges()));
    return passes::join_parts(rewritten, context_.ops, shape, o_.shard.stage, o_.micro_batches);
  }
  Graph exchanged(const Graph& whole) {
    return run(Stage::kTarget, run(Stage::kStep, whole, Selection("baseline", exchanges())),
               selection_);
  }

  Graph joined_evaluation(std::span<const Graph> parts) {
    passes::PipelineShape shape = shape_;
    shape.micro_batches = 1, shape.trains = false;
    return joined(parts, shape);
  }

  const StepOptions& o_;
  const Selection& selection_;
  passes::PassContext context_;
  TrainingStep& step_;
  passes::PipelineShape shape_;
  std::set<std::string> tied_;
};

}  // namespace

void add_pipeline(const Graph& forward,
                  const StepSetup& setup,
                  const passes::PassContext& context,
                  TrainingStep& step) {
  PipelineBuilder(setup, context, step).add(forward);
}

}  // namespace ridge::train
