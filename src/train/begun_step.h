// SPDX-License-Identifier: Apache-2.0
// A step of training that has begun: its scalars may still be on their way to the host.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "backends/backend.h"
#include "record/numerics_record.h"
#include "runtime/program.h"
#include "train/loss_scale.h"
#include "train/step.h"

namespace ridge::train {

struct StepResult {
  double loss = 0;            // mean over the micro-batches
  double gradient_norm = -1;  // before clipping; -1 without clipping
  bool skipped = false;       // whether the update was left out
  bool overflowed = false;    // whether it was because the gradients overflowed fp16
  double loss_scale = 0;      // the next step's; 0 without loss scaling
  double attended = 1;        // keys that queries attended to, of those in rows of one document
  double begin_ns = 0;        // on the host's clock
  double elapsed_ns = 0;      // wall time: inputs written, graphs run, loss read back
  std::vector<record::ProfiledRun> profiles;       // per graph run, if profiled
  std::optional<record::NumericsRecord> numerics;  // if the step was inspected
};

// An output f32[] of a graph that runs.
class PendingScalar {
 public:
  PendingScalar() = default;
  PendingScalar(runtime::Program& program, int graph, size_t output);
  double wait();

 private:
  std::unique_ptr<backends::CopyOut> copy_;  // null: it is read already
  double value_ = 0;
};

class BegunStep {
 public:
  // Reads the outputs of the step's graph with this index after each of its runs.
  void read(runtime::Program& program, int index, const StepGraph& graph);
  // The mean of the losses so far.
  double wait_for_loss();
  // Waits until the step is done, and returns when that was.
  double wait();
  // The result of a step that is done, without its times. `scale` is null or the state of loss
  // scaling after the step before, and becomes that after this step, `number`. Throws a run-time
  // Error if the gradients overflow with the least scale.
  StepResult result(LossScaleState* scale, int64_t number);

  double begin_ns = 0;   // on the host's clock
  double end_ns = 0;     // the host's part ended then
  bool skipped = false;  // the guard left the update out
  double attended = 1;
  std::unique_ptr<backends::CopyOut> done;  // null if the step ended with the host's part
  std::vector<record::ProfiledRun> profiles;
  std::optional<record::NumericsRecord> numerics;

 private:
  void take_scale(LossScaleState& scale, int64_t number, StepResult& result);

  std::vector<PendingScalar> losses_;  // one per micro-batch
  std::optional<PendingScalar> squared_norm_, scale_, skipped_steps_;
};

}  // namespace ridge::train
