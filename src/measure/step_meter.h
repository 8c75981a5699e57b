// SPDX-License-Identifier: Apache-2.0
// The profiling of a training: decides which steps are instrumented, and collects losses, times
// and counts of the steps for the record of the run.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backends/backend.h"
#include "cost/ceilings.h"
#include "measure/hardware_counters.h"
#include "measure/launch_rate.h"
#include "measure/measurement.h"
#include "measure/sampling_schedule.h"
#include "record/run_record.h"
#include "record/step_record.h"
#include "runtime/load.h"
#include "train/batch.h"
#include "train/observer.h"
#include "train/setup.h"
#include "train/training_loop.h"

namespace ridge::measure {

// A training to be measured, by its description.
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

// SamplingSchedule decides which steps are instrumented. If a step waits for the host's launches,
// the launch rate is sampled before each plain step that runs alone, so that its median and the
// steps' median cover the same moments.
class StepMeter final : public train::Observer {
 public:
  // Allocates the memory of the backend's probes. `ceilings` may be null; then nothing is
  // predicted.
  StepMeter(const TrainingExperiment& experiment,
            backends::Backend& backend,
            const cost::Ceilings* ceilings);
  StepMeter(const StepMeter&) = delete;
  StepMeter& operator=(const StepMeter&) = delete;

  train::StepForms forms() const;  // valid as long as this object
  void sample_launch_rate() { launch_rate_.sample(); }

  void at_boundary(int64_t next) override;
  void before_step(int64_t step, bool instrumented) override;
  void after_step(const train::StepEvent& event) override;

  // Adds the measured steps to a record that has its counts. `graphs`: from count_graphs.
  void fill(std::span<const record::PredictedGraph> graphs, record::RunRecord& record) const;

 private:
  bool is_alone(int64_t step) const;
  bool is_sampled(int64_t step) const;
  bool is_instrumented(int64_t step) const;

  bool instruments_, waits_;  // as in the experiment
  int64_t first_step_;
  const cost::Ceilings* ceilings_;
  LaunchRate launch_rate_;
  backends::Instrument* instrument_;  // null: the backend has none, or the experiment uses none
  SamplingSchedule schedule_;
  Measurement measurement_;
  HardwareCounters hardware_;
  record::RunRecord steps_;  // losses, times, overflows and the processor's counts, nothing else
};

}  // namespace ridge::measure
