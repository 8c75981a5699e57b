// SPDX-License-Identifier: Apache-2.0
// A training step by its description, which is planned or run, and the record of it that a plan and
// a measurement begin with.
#pragma once

#include <vector>

#include "record/run_record.h"
#include "train/step.h"

namespace ridge::train {

struct TrainingSetup : StepSetup {
  // Copied into the record; batch size, length and micro-batches come from `step`.
  record::Setting setting;
};

// The record of the setup before anything is counted.
record::RunRecord begin_record(const TrainingSetup& setup,
                               const std::vector<cost::PassRecord>& passes);

}  // namespace ridge::train
