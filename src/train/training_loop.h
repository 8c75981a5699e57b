// SPDX-License-Identifier: Apache-2.0
// The training loop: read a batch, step, report. It measures nothing; measure/training_run.h times
// the steps of the same trainer.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "train/batch.h"
#include "train/trainer.h"

namespace ridge::train {

// Returns the micro-batches of one step.
std::vector<Batch> read_step(BatchSource& data, const StepOptions& options);

using StepListener = std::function<void(int64_t step, const StepResult& result)>;

// Called before each step; true ends the training after the steps that have begun.
using StopCheck = std::function<bool()>;

// Work between two steps, such as validation or a checkpoint.
struct Pauses {
  // Whether there is work before step `next`.
  std::function<bool(int64_t next)> is_due = [](int64_t) { return false; };
  // Called then, after the steps that have begun are finished and reported.
  std::function<void(int64_t next)> pause = {};
};

// Runs the steps from `first` up to but not including `end`. Calls `report` after each step's loss
// is read; on an asynchronous device, the next step begins before that. Returns the step after the
// last one.
int64_t run_loop(
    Trainer& trainer,
    BatchSource& data,
    int64_t first,
    int64_t end,
    const StepListener& report,
    const StopCheck& is_stopped = [] { return false; },
    const Pauses& pauses = {});

}  // namespace ridge::train
