// SPDX-License-Identifier: Apache-2.0
// The training loop: read a batch, step, report. It measures nothing; measure/training_run.h times
// the steps of the same trainer.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "train/trainer.h"
#include "train/workshop_data.h"

namespace ridge::train {

// Returns the micro-batches of one step.
std::vector<Batch> read_step(WorkshopData& data, const StepOptions& options);

using StepListener = std::function<void(int64_t step, const StepResult& result)>;

// Called before each step; true ends the training after the steps that have begun.
using StopCheck = std::function<bool()>;

// Runs the steps from `first` up to but not including `end`. Calls `report` after each step's loss
// is read; on an asynchronous device, the next step begins before that.
void run_loop(
    Trainer& trainer,
    WorkshopData& data,
    int64_t first,
    int64_t end,
    const StepListener& report,
    const StopCheck& is_stopped = [] { return false; });

}  // namespace ridge::train
