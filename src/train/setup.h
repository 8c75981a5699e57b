// SPDX-License-Identifier: Apache-2.0
// A training step by its description, which is planned or run, and the record of it that a plan and
// a measurement begin with.
#pragma once

#include <vector>

#include "models/config.h"
#include "passes/pipeline.h"
#include "record/run_record.h"
#include "train/step.h"

namespace ridge::train {

struct TrainingSetup {
  // Copied into the record; batch size, length and micro-batches come from `step`.
  record::Setting setting;
  models::ModelConfig config;
  StepOptions step;
  passes::Selection selection{"baseline", ""};
};

// The record of the setup before anything is counted.
record::RunRecord begin_record(const TrainingSetup& setup,
                               const std::vector<cost::PassRecord>& passes);

}  // namespace ridge::train
