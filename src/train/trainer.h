// SPDX-License-Identifier: Apache-2.0
// A training run: builds the step for a backend, fills the store, and runs steps. It prints
// nothing.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backends/backend.h"
#include "models/config.h"
#include "passes/pipeline.h"
#include "record/numerics_record.h"
#include "runtime/load.h"
#include "runtime/program.h"
#include "train/batch.h"
#include "train/numerics.h"
#include "train/step.h"

namespace ridge::train {

struct StepResult {
  double loss = 0;            // mean over the micro-batches
  double gradient_norm = -1;  // before clipping; -1 without clipping
  bool skipped = false;       // whether the update was left out
  bool overflowed = false;    // whether it was because the gradients overflowed fp16
  double loss_scale = 0;      // of the next step; 0 without loss scaling
  double attended = 1;        // keys that queries attended to, of those in rows of one document
  double begin_ns = 0;        // on the host's clock
  double elapsed_ns = 0;      // wall time: inputs written, graphs run, loss read back
  std::vector<record::ProfiledRun> profiles;       // per graph run, if profiled
  std::optional<record::NumericsRecord> numerics;  // if the step was inspected
};

class Trainer {
 public:
  // With `ceilings`, the pass records have predicted times. `weights` are those to start from, by
  // their names in a file; without them, they are drawn as synthetic_data.h says.
  Trainer(const models::ModelConfig& config,
          const StepOptions& options,
          const passes::Selection& selection,
          backends::Backend& backend,
          const cost::Ceilings* ceilings = nullptr,
          const runtime::TensorSource& weights = {});

  // Enqueues a step, with one batch for each micro-batch; the step may still be running on return.
  // finish_step returns results in the order in which the steps began. If steps overlap, the time
  // of a step counts from the end of the previous one.
  void begin_step(std::span<const Batch> batches);
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
  // A step that has begun and is not finished.
  struct Begun {
    double begin_ns = 0;
    double end_ns = 0;  // end of the host's part
    double loss = 0;
    std::vector<std::unique_ptr<backends::CopyOut>> terms;  // of the loss, one per micro-batch
    // Of the gradients; where they are on their way, in `norm`. Likewise the others.
    double squared_norm = -1, scale = 0, skipped_steps = 0;
    std::unique_ptr<backends::CopyOut> norm, next_scale, next_skipped_steps;
    bool skipped = false;
    double attended = 1;
    std::unique_ptr<backends::CopyOut> done;  // null if the step ended with the host's part
    std::vector<record::ProfiledRun> profiles;
    std::optional<record::NumericsRecord> numerics;
  };
  void load(const runtime::TensorSource& weights);
  void run(int graph, bool profiled, Begun& begun);
  void begin(std::span<const Batch> batches, bool profiled);
  void read_loss(int graph, Begun& begun);
  void read_update(int graph, Begun& begun);
  void read_scalar(int graph,
                   size_t output,
                   double& value,
                   std::unique_ptr<backends::CopyOut>& copy);
  void await_loss(Begun& begun) const;
  // The indexes of graphs in the program, beside those of the step.
  int discard_graph() const { return static_cast<int>(step_.graphs.size()); }
  int evaluation_graph() const { return discard_graph() + (step_.discard ? 1 : 0); }
  void write_batch(const Batch& batch);
  void expect_finite(double loss) const;
  void take_scale(const Begun& begun, StepResult& result);

  models::ModelConfig config_;
  StepOptions options_;
  backends::Backend& backend_;
  TrainingStep step_;
  runtime::Store store_;
  runtime::Program program_;
  std::function<bool(double)> skips_;
  std::optional<Numerics> inspection_;  // of the next step
  int64_t taken_ = 0;
  int64_t finished_ = 0;
  LossScaleState scale_;  // after the last finished step
  std::deque<Begun> begun_;
  double last_end_ns_ = 0;
};

}  // namespace ridge::train
