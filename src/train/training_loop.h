// SPDX-License-Identifier: Apache-2.0
// The driver of a training, measure/training_run.h, reads batches and stops and pauses by these.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "train/batch.h"
#include "train/trainer.h"

namespace ridge::train {

// Returns the micro-batches of one step.
std::vector<Batch> read_step(BatchSource& data, const StepOptions& options);

// Called before each step; true ends the training after the steps that have begun.
using StopCheck = std::function<bool()>;

// Work between two steps, such as validation or a checkpoint.
struct Pauses {
  // Whether there is work before step `next`.
  std::function<bool(int64_t next)> is_due = [](int64_t) { return false; };
  // Called then, after the steps that have begun are finished and reported.
  std::function<void(int64_t next)> pause = {};
};

}  // namespace ridge::train
