// SPDX-License-Identifier: Apache-2.0
// One measured training run: warm-up, then plain and instrumented steps in turn, and a record of it
// all. It prints nothing; the listener hears of each step.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "backends/backend.h"
#include "cost/ceilings.h"
#include "measure/launch_rate.h"
#include "measure/measurement.h"
#include "measure/sampling_schedule.h"
#include "models/config.h"
#include "passes/pipeline.h"
#include "record/run_record.h"
#include "record/step_record.h"
#include "train/step.h"
#include "train/trainer.h"
#include "train/workshop_data.h"

namespace ridge::measure {

struct TrainingExperiment {
  // What the record will say; batch, sequence and micro-batches come from `step`
  record::Setting setting;
  models::ModelConfig config;
  train::StepOptions step;
  passes::Selection selection{"baseline", ""};
  int64_t warmup_steps = 5;  // training steps that are not measured
  int64_t steps = 20;
  bool instrument = true;  // false: all steps are plain, and the record's step is empty
  // Whether steps begin when the one before is done, all or only those that are compared with
  // instrumented ones; others are told the device while one is under way.
  bool waits = true;
  // Resident memory that is no experiment's; empty: all that is there when this one begins. What
  // others hold beyond it is left out of the record.
  std::optional<int64_t> foreign_bytes;
};

struct StepEvent {
  int64_t index = 0;  // 0 is the first measured step; warm-up steps are negative
  bool instrumented = false;
  const train::StepResult& result;
};
using StepListener = std::function<void(const StepEvent&)>;

// A training experiment under way, so that several can be interleaved in rounds: what disturbs the
// machine for a while hits all of them. SamplingSchedule says which steps are instrumented. Only
// where the backend has no instrument of its own can more than one experiment be under way. Where
// a step waits for the host's launches, their rate is sampled before and after each round, and
// before each plain step that runs alone: the median of these and that of the steps are then of the
// same moments.
class TrainingRun {
 public:
  // Builds the trainer. `ceilings` may be null: then nothing is predicted.
  TrainingRun(const TrainingExperiment& experiment,
              backends::Backend& backend,
              const cost::Ceilings* ceilings,
              StepListener listener = {});
  // Up to `steps` measured steps; the first round has the warm-up too.
  void run_round(int64_t steps);
  bool is_done() const { return finished_ == experiment_.steps; }
  // Of all steps so far. Memory is that of the first round.
  record::RunRecord record() const;
  train::Trainer& trainer() { return trainer_; }

 private:
  // It begins when the one before is done, and ends before the next.
  bool is_alone(int64_t step) const;
  bool may_begin() const;  // the next step
  void finish(train::StepResult result);

  TrainingExperiment experiment_;
  backends::Backend& backend_;
  const cost::Ceilings* ceilings_;
  StepListener listener_;
  LaunchRate launch_rate_;
  backends::Instrument* instrument_;  // null: none, or none is asked for
  SamplingSchedule schedule_;
  ProcessMemory before_;
  int64_t others_bytes_;  // resident, of experiments that began before
  train::Trainer trainer_;
  train::WorkshopData data_;
  record::RunRecord counts_;  // of a step, before anything ran; and its memory
  std::vector<record::PredictedGraph> graphs_;
  Measurement measurement_;
  std::vector<double> losses_;
  int64_t begun_;
  int64_t finished_;
};

// All of it in one round.
record::RunRecord measure_training(const TrainingExperiment& experiment,
                                   backends::Backend& backend,
                                   const cost::Ceilings* ceilings,
                                   const StepListener& listener = {});

// What the graphs of the experiment are expected to need, without a run: the record with its
// counts, predicted time and memory, and no measurement. `step` is what build_step made of it.
record::RunRecord planned_training(const TrainingExperiment& experiment,
                                   const train::TrainingStep& step,
                                   const plan::Target& target,
                                   const cost::Ceilings* ceilings);

}  // namespace ridge::measure
