// SPDX-License-Identifier: Apache-2.0
// Measures one training run: warm-up, then plain and instrumented steps, and a record of them. It
// prints nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backends/backend.h"
#include "base/process_memory.h"
#include "cost/ceilings.h"
#include "measure/step_meter.h"
#include "record/run_record.h"
#include "record/step_record.h"
#include "train/synthetic_data.h"
#include "train/trainer.h"
#include "train/training_loop.h"

namespace ridge::measure {

// A training experiment that runs in rounds, so that several can be interleaved and a disturbance
// of the machine affects all of them. More than one experiment can run at a time only if the
// backend has no instrument. If a step waits for the host's launches, the launch rate is sampled
// before and after each round too (see StepMeter).
class TrainingRun {
 public:
  // Builds the trainer. `ceilings` may be null; then nothing is predicted.
  TrainingRun(const TrainingExperiment& experiment,
              backends::Backend& backend,
              const cost::Ceilings* ceilings);
  // Its work between the steps follows that of the observers before it. It must outlive the run.
  void observe(train::Observer& observer) { loop_.observe(observer); }
  // Runs up to `steps` measured steps; the first round includes the warm-up. The round ends
  // earlier, after the steps that have begun, once `is_stopped` returns true.
  void run_round(
      int64_t steps,
      const train::StopCheck& is_stopped = [] { return false; });
  void end() { loop_.end(); }  // after the last round: tells the observers
  bool is_done() const { return loop_.finished() == experiment_.steps; }
  // The record of all steps so far. Its memory is measured in the first round.
  record::RunRecord record() const;
  train::Trainer& trainer() { return trainer_; }

 private:
  TrainingExperiment experiment_;
  backends::Backend& backend_;
  StepMeter meter_;
  ProcessMemory before_;
  int64_t others_bytes_;  // resident bytes of experiments that began earlier
  train::Trainer trainer_;
  std::optional<train::SyntheticData> synthetic_;  // unless the experiment has data
  train::BatchSource& data_;
  record::RunRecord counts_;  // counts and planned memory of a step, from before the first run
  std::vector<record::PredictedGraph> graphs_;
  train::TrainingLoop loop_;
};

// Whether a record has steps of each kind that the experiment measures: one that was stopped early
// may lack some.
bool is_reportable(const TrainingExperiment& experiment, const record::RunRecord& record);

}  // namespace ridge::measure
