// SPDX-License-Identifier: Apache-2.0
// Sets up the program and runs steps.
#include "train/trainer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/finite.h"
#include "ops/loss_scale.h"
#include "ops/registry.h"
#include "train/adapter.h"
#include "train/synthetic_data.h"

namespace ridge::train {
namespace {

// The file name of the first parameter that is not finite; empty if all are finite.
std::string first_not_finite(const LoadGraph& load, const runtime::Store& store) {
  std::string first;
  runtime::save_parameters(
      load, store, [&](const std::string& name, const Type&, const std::vector<float>& values) {
        if (first.empty() && !all_finite(values)) first = name;
      });
  return first;
}

// The share of the keys before a query, or its own, that are of the query's document.
double attended_share(std::span<const Batch> batches, int64_t sequence) {
  int64_t keys = 0, all = 0;
  for (const Batch& batch : batches) {
    for (const int32_t position : batch.positions) keys += position + 1;
    all += std::ssize(batch.positions) / sequence * (sequence * (sequence + 1) / 2);
  }
  return static_cast<double>(keys) / static_cast<double>(all);
}

}  // namespace

Trainer::Trainer(const models::ModelConfig& config,
                 const StepOptions& options,
                 const passes::Selection& selection,
                 backends::Backend& backend,
                 const cost::Ceilings* ceilings,
                 const runtime::TensorSource& weights)
    : config_(config),
      options_(options),
      backend_(backend),
      step_(build_step(config, options, selection, ops::table(), backend, ceilings)),
      store_(backend),
      program_(backend, store_) {
  for (StepGraph& each : step_.graphs)
    program_.add(each.name, each.graph, static_cast<int>(each.repeat));
  if (step_.discard) program_.add("discard", *step_.discard);
  if (step_.evaluation) program_.add("evaluation", *step_.evaluation);
  load(weights);
  program_.bind();
  if (has_loss_scale(store_)) set_loss_scale({options.loss_scaling.initial});
}

void Trainer::load(const runtime::TensorSource& weights) {
  std::map<std::string, std::vector<float>> drawn;
  if (!weights)
    draw_weights(config_, kSyntheticSeed, [&](const std::string& name, std::vector<float> data) {
      drawn[name] = std::move(data);
    });
  runtime::load_parameters(
      step_.load,
      [&](const std::string& name, const Type& type) {
        if (passes::is_lora(name)) return initial_adapter(name, type.shape, kSyntheticSeed);
        if (weights) return weights(name, type);
        auto found = drawn.find(name);
        RIDGE_CHECK(found != drawn.end(), "no weight '{}' was drawn", name);
        return found->second;
      },
      store_);
}

void Trainer::write_batch(const Batch& batch) {
  auto write = [&](const char* name, const std::vector<int32_t>& values) {
    store_.write(name, values.data(), static_cast<int64_t>(values.size() * sizeof(int32_t)));
  };
  write("ids", batch.ids);
  write("positions", batch.positions);
  write("labels", batch.labels);
}

void Trainer::read_loss(int graph, Begun& begun) {
  ValueId loss = program_.graph(graph).graph().outputs[0];
  if (auto term = program_.start_read(graph, loss))
    begun.terms.push_back(std::move(term));
  else
    begun.loss += static_cast<double>(program_.read(graph, loss)[0]) /
                  static_cast<double>(options_.micro_batches);
}

void Trainer::read_scalar(int graph,
                          size_t output,
                          double& value,
                          std::unique_ptr<backends::CopyOut>& copy) {
  const ValueId scalar = program_.graph(graph).graph().outputs[output];
  copy = program_.start_read(graph, scalar);
  if (copy == nullptr) value = static_cast<double>(program_.read(graph, scalar)[0]);
}

// In the order of StepGraph's outputs.
void Trainer::read_update(int graph, Begun& begun) {
  const StepGraph& step = step_.graphs[static_cast<size_t>(graph)];
  size_t output = step.has_loss ? 1 : 0;
  if (step.has_norm) read_scalar(graph, output++, begun.squared_norm, begun.norm);
  if (!step.has_scale) return;
  read_scalar(graph, output, begun.scale, begun.next_scale);
  read_scalar(graph, output + 1, begun.skipped_steps, begun.next_skipped_steps);
}

void Trainer::await_loss(Begun& begun) const {
  for (const auto& term : begun.terms) {
    float value = 0;
    std::memcpy(&value, term->wait().data(), sizeof value);
    begun.loss += static_cast<double>(value) / static_cast<double>(options_.micro_batches);
  }
  begun.terms.clear();
}

void Trainer::inspect_next() {
  RIDGE_CHECK(begun_.empty(), "a step is under way");
  inspection_.emplace();
}

void Trainer::run(int graph, bool profiled, Begun& begun) {
  if (inspection_)
    program_.run_inspected(
        graph, [&](NodeId node) { inspection_->before(program_, graph, node); },
        [&](NodeId node) { inspection_->after(program_, graph, node); });
  else if (profiled)
    begun.profiles.push_back(program_.run_profiled(graph));
  else
    program_.run(graph);
}

void Trainer::begin(std::span<const Batch> batches, bool profiled) {
  RIDGE_CHECK(!profiled || begun_.empty(), "a step is under way");
  RIDGE_CHECK(static_cast<int64_t>(batches.size()) == options_.micro_batches,
              "{} batches for {} micro-batches", batches.size(), options_.micro_batches);
  Begun begun;
  begun.begin_ns = now_ns();
  if (options_.packing == models::Packing::kDocuments)
    begun.attended = attended_share(batches, options_.sequence);
  ++taken_;
  store_.write_scalar("learning_rate",
                      static_cast<float>(learning_rate(options_.optimizer, taken_)));
  store_.write_scalar("step", static_cast<float>(taken_));
  auto batch = batches.begin();
  for (int i = 0; i < static_cast<int>(step_.graphs.size()); ++i) {
    const StepGraph& graph = step_.graphs[static_cast<size_t>(i)];
    if (!graph.has_loss && skips_) {
      await_loss(begun);
      begun.skipped = skips_(begun.loss);
    }
    if (begun.skipped) {
      program_.run(discard_graph());
      break;
    }
    for (int64_t k = 0; k < graph.repeat; ++k) {
      if (graph.has_loss) write_batch(*batch++);
      run(i, profiled, begun);
      if (graph.has_loss) read_loss(i, begun);
      read_update(i, begun);
    }
  }
  if (inspection_) {
    backend_.synchronize();
    begun.numerics = inspection_->finish(store_, taken_ - 1, scale_.scale);
    inspection_.reset();
  }
  begun.done = backend_.start_copy_out(nullptr, 0);
  begun.end_ns = now_ns();
  begun_.push_back(std::move(begun));
}

void Trainer::begin_step(std::span<const Batch> batches) { begin(batches, false); }

namespace {

void await(const std::unique_ptr<backends::CopyOut>& copy, double& value) {
  if (copy == nullptr) return;
  float read = 0;
  std::memcpy(&read, copy->wait().data(), sizeof read);
  value = static_cast<double>(read);
}

}  // namespace

// The norm of gradients that overflowed is not known.
void Trainer::take_scale(const Begun& begun, StepResult& result) {
  result.loss_scale = scale_.scale;
  if (begun.skipped) return;  // by the guard, before the update
  const auto skipped_steps = static_cast<int64_t>(begun.skipped_steps);
  result.loss_scale = begun.scale;
  result.overflowed = result.skipped = skipped_steps > scale_.skipped_steps;
  if (result.overflowed) result.gradient_norm = -1;
  if (result.overflowed && scale_.scale == ops::kLeastLossScale)
    throw runtime_error("[train] the gradients of step {} overflow fp16 with a loss scale of {}",
                        finished_, ops::kLeastLossScale);
  scale_.scale = begun.scale;
  scale_.skipped_steps = skipped_steps;
}

std::optional<LossScaleState> Trainer::loss_scale() const {
  RIDGE_CHECK(begun_.empty(), "a step is under way");
  if (!has_loss_scale(store_)) return {};
  return read_loss_scale(store_);
}

void Trainer::set_loss_scale(const LossScaleState& state) {
  RIDGE_CHECK(begun_.empty(), "a step is under way");
  write_loss_scale(store_, state);
  scale_ = state;
}

StepResult Trainer::finish_step() {
  RIDGE_CHECK(!begun_.empty(), "no step is under way");
  Begun begun = std::move(begun_.front());
  begun_.pop_front();
  await_loss(begun);
  await(begun.norm, begun.squared_norm);
  await(begun.next_scale, begun.scale);
  await(begun.next_skipped_steps, begun.skipped_steps);
  if (begun.done != nullptr) begun.done->wait();
  double end_ns = begun.done == nullptr ? begun.end_ns : now_ns();
  ++finished_;
  if (!begun.skipped) expect_finite(begun.loss);
  StepResult result;
  result.loss = begun.loss;
  if (begun.squared_norm >= 0) result.gradient_norm = std::sqrt(begun.squared_norm);
  result.skipped = begun.skipped;
  if (has_loss_scale(store_)) take_scale(begun, result);
  result.attended = begun.attended;
  result.begin_ns = std::max(begun.begin_ns, last_end_ns_);
  result.elapsed_ns = end_ns - result.begin_ns;
  last_end_ns_ = end_ns;
  result.profiles = std::move(begun.profiles);
  result.numerics = std::move(begun.numerics);
  for (const record::ProfiledRun& run : result.profiles) result.elapsed_ns -= run.instrument_ns;
  return result;
}

double Trainer::evaluate(std::span<const Batch> batches) {
  RIDGE_CHECK(begun_.empty() && step_.evaluation, "no evaluation now");
  const int graph = evaluation_graph();
  const ValueId loss = program_.graph(graph).graph().outputs[0];
  double sum = 0;
  int64_t labels = 0;
  for (const Batch& batch : batches) {
    write_batch(batch);
    program_.run(graph);
    const auto counted = std::count_if(batch.labels.begin(), batch.labels.end(),
                                       [](int32_t label) { return label >= 0; });
    sum += static_cast<double>(program_.read(graph, loss)[0]) * static_cast<double>(counted);
    labels += counted;
  }
  return sum / static_cast<double>(labels);
}

void Trainer::resume_after(int64_t step) {
  RIDGE_CHECK(begun_.empty(), "a step is under way");
  taken_ = finished_ = step;
}

void Trainer::expect_finite(double loss) const {
  if (std::isfinite(loss)) return;
  const std::string tensor = first_not_finite(step_.load, store_);
  throw runtime_error("[train] expected a finite loss, step {} has {}; {}", finished_,
                      std::isnan(loss) ? "nan" : "infinity",
                      tensor.empty() ? "all parameters are finite"
                                     : "the first parameter that is not finite is " + tensor);
}

StepResult Trainer::step(std::span<const Batch> batches, bool profiled) {
  begin(batches, profiled);
  return finish_step();
}

}  // namespace ridge::train
