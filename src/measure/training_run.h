// SPDX-License-Identifier: Apache-2.0
// Measures one training run: warm-up, then plain and instrumented steps, and a record of them. It
// prints nothing; the listener is called after each step.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "backends/backend.h"
#include "cost/ceilings.h"
#include "measure/hardware_counters.h"
#include "measure/launch_rate.h"
#include "measure/measurement.h"
#include "measure/sampling_schedule.h"
#include "record/run_record.h"
#include "record/step_record.h"
#include "train/setup.h"
#include "train/synthetic_data.h"
#include "train/trainer.h"
#include "train/training_loop.h"

namespace ridge::measure {

struct TrainingExperiment : train::TrainingSetup {
  int64_t warmup_steps = 5;  // training steps that are not measured
  int64_t steps = 20;
  int64_t first_step = 0;  // after a checkpoint; the steps before it count as done
  bool instrument = true;  // false: all steps are plain, and the record's step has counts alone
  // Whether each step begins only after the previous one is done. If false, this holds only for the
  // steps that are compared with instrumented ones; the others are enqueued while one is running.
  bool waits = true;
  // Resident memory that belongs to no experiment. If empty, it is all memory that is resident when
  // this experiment begins. Memory of other experiments beyond it is left out of the record.
  std::optional<int64_t> foreign_bytes;
  // Null: synthetic data. It must outlive the run.
  train::BatchSource* data = nullptr;
  // The weights to start from, by their names in a file; empty: drawn from the seed.
  runtime::TensorSource weights;
};

struct StepEvent {
  int64_t index = 0;  // 0 is the first measured step; warm-up steps are negative
  bool instrumented = false;
  const train::StepResult& result;
};
using StepListener = std::function<void(const StepEvent&)>;

// A training experiment that runs in rounds, so that several can be interleaved and a disturbance
// of the machine affects all of them. SamplingSchedule decides which steps are instrumented. More
// than one experiment can run at a time only if the backend has no instrument. If a step waits for
// the host's launches, the launch rate is sampled before and after each round and before each plain
// step that runs alone, so that its median and the steps' median cover the same moments.
class TrainingRun {
 public:
  // Builds the trainer. `ceilings` may be null; then nothing is predicted.
  TrainingRun(const TrainingExperiment& experiment,
              backends::Backend& backend,
              const cost::Ceilings* ceilings,
              StepListener listener = {});
  // Work between steps, from now on.
  void set_pauses(train::Pauses pauses) { pauses_ = std::move(pauses); }
  // Runs up to `steps` measured steps; the first round includes the warm-up. The round ends earlier,
  // after the steps that have begun, once `is_stopped` returns true.
  void run_round(
      int64_t steps,
      const train::StopCheck& is_stopped = [] { return false; });
  bool is_done() const { return finished_ == experiment_.steps; }
  // The record of all steps so far. Its memory is measured in the first round.
  record::RunRecord record() const;
  train::Trainer& trainer() { return trainer_; }
  int64_t finished() const { return finished_; }  // the step after the last one

 private:
  // Whether the step begins after the previous one is done and ends before the next one begins.
  bool is_alone(int64_t step) const;
  bool may_begin() const;  // whether the next step may begin
  bool is_sampled(int64_t step) const;
  bool is_instrumented(int64_t step) const;
  void pause_if_due();
  void step_instrumented();
  void finish(train::StepResult result);

  TrainingExperiment experiment_;
  backends::Backend& backend_;
  const cost::Ceilings* ceilings_;
  StepListener listener_;
  LaunchRate launch_rate_;
  backends::Instrument* instrument_;  // null: the backend has none, or the experiment uses none
  SamplingSchedule schedule_;
  ProcessMemory before_;
  int64_t others_bytes_;  // resident bytes of experiments that began earlier
  train::Trainer trainer_;
  std::optional<train::SyntheticData> synthetic_;  // unless the experiment has data
  train::BatchSource& data_;
  record::RunRecord counts_;  // counts and planned memory of a step, from before the first run
  std::vector<record::PredictedGraph> graphs_;
  Measurement measurement_;
  HardwareCounters hardware_;
  std::vector<double> losses_;
  train::Pauses pauses_;
  int64_t paused_ = -1;  // the last step before which there was work
  int64_t begun_;
  int64_t finished_;
};

// Whether a record has steps of each kind that the experiment measures: one that was stopped early
// may lack some.
bool is_reportable(const TrainingExperiment& experiment, const record::RunRecord& record);

// Runs the whole experiment in one round.
record::RunRecord measure_training(const TrainingExperiment& experiment,
                                   backends::Backend& backend,
                                   const cost::Ceilings* ceilings,
                                   const StepListener& listener = {});

}  // namespace ridge::measure
