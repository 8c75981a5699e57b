// SPDX-License-Identifier: Apache-2.0
// A training run: builds the step for a backend, fills the store, and takes steps. It prints
// nothing.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "backends/backend.h"
#include "models/config.h"
#include "passes/pipeline.h"
#include "runtime/program.h"
#include "train/step.h"
#include "train/workshop_data.h"

namespace ridge::train {

struct StepResult {
  double loss = 0;        // mean over the micro-batches
  double elapsed_ns = 0;  // wall time of the step's graphs, data and loss read-back included
  std::vector<perf::ProfiledRun> profiles;  // per graph run, when asked for
};

class Trainer {
 public:
  Trainer(const models::ModelConfig& config,
          const StepOptions& options,
          const passes::Selection& selection,
          backends::Backend& backend);

  StepResult step(bool profiled = false);

  const TrainingStep& graphs() const { return step_; }
  const runtime::Program& program() const { return program_; }
  runtime::Store& store() { return store_; }
  const models::ModelConfig& config() const { return config_; }
  const StepOptions& options() const { return options_; }
  int64_t owned_bytes() const { return store_.bytes() + program_.arena_bytes(); }

 private:
  void write_batch();

  models::ModelConfig config_;
  StepOptions options_;
  backends::Backend& backend_;
  TrainingStep step_;
  runtime::Store store_;
  runtime::Program program_;
  WorkshopData data_;
  std::optional<WorkshopData::Batch> next_batch_;
  int64_t taken_ = 0;
};

}  // namespace ridge::train
