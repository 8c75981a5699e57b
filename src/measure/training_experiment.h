// SPDX-License-Identifier: Apache-2.0
// A training to be measured, by its description.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/load.h"
#include "train/batch.h"
#include "train/setup.h"

namespace ridge::measure {

struct TrainingExperiment : train::TrainingSetup {
  int64_t warmup_steps = 5;  // training steps that are not measured
  int64_t steps = 20;
  int64_t first_step = 0;  // after a checkpoint; the steps before it count as done
  bool instrument = true;  // false: all steps are plain, and the record's step has counts alone
  // Whether each step begins only after the previous one is done. If false, this holds only for
  // the steps that are compared with instrumented ones; the others are enqueued while one is
  // running.
  bool waits = true;
  // Resident memory that belongs to no experiment. If empty, it is all memory that is resident
  // when this experiment begins. Memory of other experiments beyond it is left out of the record.
  std::optional<int64_t> foreign_bytes;
  // Null: synthetic data. It must outlive the run.
  train::BatchSource* data = nullptr;
  // The weights to start from, by their names in a file; empty: drawn from the seed.
  runtime::TensorSource weights;
};

}  // namespace ridge::measure
