// SPDX-License-Identifier: Apache-2.0
// Sets up the program and runs steps.
#include "train/trainer.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/finite.h"
#include "passes/tensor_shards.h"
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

void expect_finite(double loss, int64_t step, const LoadGraph& load, const runtime::Store& store) {
  if (std::isfinite(loss)) return;
  const std::string tensor = first_not_finite(load, store);
  throw runtime_error("[train] expected a finite loss, step {} has {}; {}", step,
                      std::isnan(loss) ? "nan" : "infinity",
                      tensor.empty() ? "all parameters are finite"
                                     : "the first parameter that is not finite is " + tensor);
}

// Parts of a tensor have its storage, too.
bool is_file_tensor(const Value& value) {
  return value.storage == Storage::kInput && value.producer == kNoNode;
}

// Fills the parameters with these weights, or draws them. A stage asks for those of the others
// too: the hash of a model is of all that was read.
void load(const LoadGraph& load,
          const models::ModelConfig& config,
          const runtime::TensorSource& weights,
          bool has_stages,
          runtime::Store& store) {
  std::set<std::string> asked;
  const std::vector<InitialWeight> initial =
      weights ? std::vector<InitialWeight>() : initial_weights(config, kSyntheticSeed);
  runtime::load_parameters(
      load,
      [&](const std::string& name, const Type& type) {
        asked.insert(name);
        if (passes::is_lora(name)) return initial_adapter(name, type.shape, kSyntheticSeed);
        if (weights) return weights(name, type);
        const auto found = std::ranges::find(initial, name, &InitialWeight::name);
        RIDGE_CHECK(found != initial.end(), "no weight '{}' is drawn", name);
        return found->draw();
      },
      store);
  for (const Value& each : load.graph.values)
    if (weights && has_stages && is_file_tensor(each) && !passes::is_lora(each.name) &&
        !asked.contains(each.name))
      weights(each.name, each.type);
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

// The values of a micro-batch, in their place among those of one run of a graph. A stage of a
// pipeline may not have the input.
void write_input(runtime::Store& store,
                 const char* name,
                 const std::vector<int32_t>& values,
                 int64_t micro_batch) {
  const auto bytes = static_cast<int64_t>(values.size() * sizeof(int32_t));
  if (store.has(name)) store.write_part(name, micro_batch * bytes, values.data(), bytes);
}

// Ids and labels as a rank counts them that has a part of the vocabulary.
void write_parts(runtime::Store& store,
                 const Batch& batch,
                 const RankShare& share,
                 int64_t vocabulary,
                 int64_t micro_batch) {
  const int64_t count = vocabulary / share.tensor_ranks;
  const passes::VocabularyPart part{share.tensor_rank * count, count, vocabulary};
  const auto write = [&](const char* name, const std::vector<int32_t>& whole, int64_t elsewhere) {
    if (store.has(name))
      write_input(store, name,
                  passes::indices_of_part(whole, part, static_cast<int32_t>(elsewhere)),
                  micro_batch);
  };
  write(passes::kPartOfIds, batch.ids, -1);
  write(passes::kPartOfLabels, batch.labels, count);
}

}  // namespace

Trainer::Trainer(const StepSetup& setup,
                 backends::Backend& backend,
                 const cost::Ceilings* ceilings,
                 const runtime::TensorSource& weights)
    : config_(setup.config),
      options_(setup.step),
      backend_(backend),
      step_(build_step(setup, backend, ceilings)),
      store_(backend),
      program_(backend, store_) {
  for (StepGraph& each : step_.graphs)
    program_.add(each.name, each.graph, static_cast<int>(each.repeat));
  if (step_.discard) program_.add("discard", *step_.discard);
  if (step_.evaluation) program_.add("evaluation", *step_.evaluation);
  load(step_.load, config_, weights, options_.shard.stages > 1, store_);
  program_.bind();
  if (has_loss_scale(store_)) set_loss_scale({options_.loss_scaling.initial});
}

void Trainer::write_batch(const Batch& batch, int64_t micro_batch) {
  write_input(store_, "ids", batch.ids, micro_batch);
  write_input(store_, "positions", batch.positions, micro_batch);
  write_input(store_, "labels", batch.labels, micro_batch);
  write_parts(store_, batch, options_.shard, config_.vocabulary, micro_batch);
}

void Trainer::inspect_next() {
  RIDGE_CHECK(begun_.empty(), "a step is under way");
  inspection_.emplace();
}

void Trainer::run(int graph, bool profiled, BegunStep& begun) {
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
  BegunStep begun;
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
    if (!graph.has_loss && skips_) begun.skipped = skips_(begun.wait_for_loss());
    if (begun.skipped) {
      program_.run(discard_graph());
      break;
    }
    for (int64_t k = 0; k < graph.repeat; ++k) {
      for (int64_t m = 0; graph.has_loss && m < graph.micro_batches; ++m) write_batch(*batch++, m);
      run(i, profiled, begun);
      begun.read(program_, i, graph);
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
  BegunStep begun = std::move(begun_.front());
  begun_.pop_front();
  const double end_ns = begun.wait();
  ++finished_;
  if (!begun.skipped) expect_finite(begun.wait_for_loss(), finished_, step_.load, store_);
  StepResult result = begun.result(has_loss_scale(store_) ? &scale_ : nullptr, finished_);
  result.begin_ns = std::max(begun.begin_ns, last_end_ns_);
  result.elapsed_ns = end_ns - result.begin_ns;
  last_end_ns_ = end_ns;
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
    write_batch(batch, 0);
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

StepResult Trainer::step(std::span<const Batch> batches, bool profiled) {
  begin(batches, profiled);
  return finish_step();
}

}  // namespace ridge::train
