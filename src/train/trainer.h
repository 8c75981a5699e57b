// SPDX-License-Identifier: Apache-2.0
// A training run: builds the step for a backend, fills the store, and runs steps. It prints
// nothing.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <span>

#include "backends/backend.h"
#include "models/config.h"
#include "passes/pipeline.h"
#include "runtime/load.h"
#include "runtime/program.h"
#include "train/batch.h"
#include "train/begun_step.h"
#include "train/numerics.h"
#include "train/step.h"

namespace ridge::train {

class Trainer {
 public:
  // With `ceilings`, the pass records have predicted times. `weights` are those to start from, by
  // their names in a file; without them, they are drawn as synthetic_data.h says.
  Trainer(const StepSetup& setup,
          backends::Backend& backend,
          const cost::Ceilings* ceilings = nullptr,
          const runtime::TensorSource& weights = {});

  // Enqueues a step, with one batch for each micro-batch; the step may still be running on return.
  // finish_step returns results in the order in which the steps began. If steps overlap, the time
  // of a step counts from the end of the previous one.
  void begin_step(std::span<const Batch> batches) { begin(batches, false); }
  // Throws a run-time Error if the loss is not finite. The Error names the step and the first
  // parameter that is not finite.
  StepResult finish_step();
  // Begins and finishes a step. If profiled, no other step may be running.
  StepResult step(std::span<const Batch> batches, bool profiled = false);

  // The next step that begins is inspected: its nodes run one by one, to the same results, and its
  // numbers are counted. It has ended when begin_step returns. No step may be running.
  void inspect_next();
  bool inspects_next() const { return inspection_.has_value(); }

  // Called with the loss of each step before its update; true leaves the update out. The options
  // must separate the update.
  void guard(std::function<bool(double loss)> skips) { skips_ = std::move(skips); }

  // The mean loss per label of the batches, without an update. No step may be running.
  double evaluate(std::span<const Batch> batches);

  // The state of loss scaling, if there is one. No step may be running.
  std::optional<LossScaleState> loss_scale() const;
  void set_loss_scale(const LossScaleState& state);

  // The steps that have begun, of all runs that led to the present state.
  int64_t steps() const { return taken_; }
  // After the store was filled with the state at the end of a step, which may be of another run.
  void resume_after(int64_t step);

  const TrainingStep& graphs() const { return step_; }
  const runtime::Program& program() const { return program_; }
  // The graphs of a step, without that of evaluate().
  std::span<const cost::ProgramGraph> step_program() const {
    return std::span(program_.graphs()).first(step_.graphs.size());
  }
  runtime::Store& store() { return store_; }
  const runtime::Store& store() const { return store_; }
  const models::ModelConfig& config() const { return config_; }
  const StepOptions& options() const { return options_; }
  int64_t owned_bytes() const { return store_.bytes() + program_.arena_bytes(); }

 private:
  void run(int graph, bool profiled, BegunStep& begun);
  void begin(std::span<const Batch> batches, bool profiled);
  // The indexes of graphs in the program that are not the step's.
  int discard_graph() const { return static_cast<int>(step_.graphs.size()); }
  int evaluation_graph() const { return discard_graph() + (step_.discard ? 1 : 0); }
  // In its place among the micro-batches of one run.
  void write_batch(const Batch& batch, int64_t micro_batch);

  models::ModelConfig config_;
  StepOptions options_;
  backends::Backend& backend_;
  TrainingStep step_;
  runtime::Store store_;
  runtime::Program program_;
  std::function<bool(double)> skips_;
  std::optional<Numerics> inspection_;  // the next step is inspected
  int64_t taken_ = 0;
  int64_t finished_ = 0;
  LossScaleState scale_;         // after the last finished step
  std::deque<BegunStep> begun_;  // steps that are not finished
  double last_end_ns_ = 0;
};

}  // namespace ridge::train
