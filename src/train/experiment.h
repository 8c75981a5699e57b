// SPDX-License-Identifier: Apache-2.0
// One measured training run: warm-up, then plain and instrumented steps in turn, and a record of it
// all. It prints nothing; the listener hears of each step.
#pragma once

#include <cstdint>
#include <functional>

#include "backends/backend.h"
#include "models/config.h"
#include "passes/pipeline.h"
#include "perf/ceilings.h"
#include "perf/run_record.h"
#include "train/step.h"
#include "train/trainer.h"

namespace ridge::train {

struct Experiment {
  perf::Setting
      setting;  // what the record will say; batch, sequence and micro-batches come from `step`
  models::ModelConfig config;
  StepOptions step;
  passes::Selection selection{"baseline", ""};
  int64_t warmup_steps = 5;  // training steps that are not measured
  int64_t steps = 20;
  bool instrument = true;  // false: all steps are plain, and the record's step is empty
};

struct StepEvent {
  int64_t index = 0;  // 0 is the first measured step; warm-up steps are negative
  bool instrumented = false;
  const StepResult& result;
};
using StepListener = std::function<void(const StepEvent&)>;
// Hears of the trainer after the last step.
using TrainedListener = std::function<void(Trainer&)>;

// Steps go plain, instrumented, instrumented, plain, and again: a drift of the machine hits both
// kinds alike. `ceilings` may be null: then nothing is predicted.
perf::RunRecord run_experiment(const Experiment& experiment,
                               backends::Backend& backend,
                               const perf::Ceilings* ceilings,
                               const StepListener& listener = {},
                               const TrainedListener& trained = {});

// What the graphs of a trainer are expected to need, without a run: the record with its counts,
// predicted time and memory, and no measurement.
perf::RunRecord planned_run(const perf::Setting& setting,
                            const models::ModelConfig& config,
                            const StepOptions& options,
                            const TrainingStep& step,
                            const perf::Target& target,
                            const perf::Ceilings* ceilings);

}  // namespace ridge::train
