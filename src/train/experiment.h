// SPDX-License-Identifier: Apache-2.0
// One measured training run: warm-up, then plain and instrumented steps in turn, and a record of it
// all. It prints nothing; the listener hears of each step.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "backends/backend.h"
#include "cost/ceilings.h"
#include "models/config.h"
#include "passes/pipeline.h"
#include "record/run_counts.h"
#include "record/run_record.h"
#include "record/step_record.h"
#include "train/step.h"
#include "train/trainer.h"

namespace ridge::train {

struct Experiment {
  // What the record will say; batch, sequence and micro-batches come from `step`
  record::Setting setting;
  models::ModelConfig config;
  StepOptions step;
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
  const StepResult& result;
};
using StepListener = std::function<void(const StepEvent&)>;
// Hears of the trainer after the last step.
using TrainedListener = std::function<void(Trainer&)>;

// An experiment under way, so that several can run by turns: what disturbs the machine for a while
// hits all of them. Steps are sampled in fours: plain, instrumented, instrumented, plain, and the
// next sampled four the other way round: drift and the first step of a turn hit both kinds alike.
// All of the first 16 steps are sampled, then four of each 64, so that a long run is hardly slowed
// by what it records. Where the backend has an instrument, all fours are the first way round, and
// one step in sixteen is instrumented, one to eight of the run, each beside a plain one: the first
// steps of these fours. Only where it has none can more than one experiment be under way.
// The machine's pace is taken before and after each turn, and where the step is predicted at it
// before each plain step that runs alone.
class RunningExperiment {
 public:
  // Builds the trainer. `ceilings` may be null: then nothing is predicted.
  RunningExperiment(const Experiment& experiment,
                    backends::Backend& backend,
                    const cost::Ceilings* ceilings,
                    StepListener listener = {});
  // Up to `steps` measured steps; the first turn has the warm-up too.
  void take_turn(int64_t steps);
  bool is_done() const { return finished_ == experiment_.steps; }
  // Of all steps so far. Memory is that of the first turn.
  record::RunRecord record() const;
  Trainer& trainer() { return trainer_; }

 private:
  bool is_sampled(int64_t step) const;  // two of four such steps are instrumented
  bool is_instrumented(int64_t step) const;
  bool is_alone(
      int64_t step) const;  // begins when the one before is done, and ends before the next
  bool may_begin() const;   // the next step
  void take_pace();
  void finish(StepResult result);

  Experiment experiment_;
  backends::Backend& backend_;
  const cost::Ceilings* ceilings_;
  StepListener listener_;
  backends::Instrument* instrument_;  // null: none, or none is asked for
  int64_t dense_steps_;               // at the start, all of them sampled
  ProcessMemory before_;
  int64_t others_bytes_;  // resident, of experiments that began before
  Trainer trainer_;
  record::RunRecord record_;
  std::vector<record::CountedGraph> counted_;
  std::vector<record::MeasuredGraph> graphs_;
  std::vector<record::InstrumentedStep> instrumented_;
  int64_t begun_;
  int64_t finished_;
};

// All of it in one turn.
record::RunRecord run_experiment(const Experiment& experiment,
                                 backends::Backend& backend,
                                 const cost::Ceilings* ceilings,
                                 const StepListener& listener = {},
                                 const TrainedListener& trained = {});

// What the graphs of a trainer are expected to need, without a run: the record with its counts,
// predicted time and memory, and no measurement.
record::RunRecord planned_run(const record::Setting& setting,
                              const models::ModelConfig& config,
                              const StepOptions& options,
                              const TrainingStep& step,
                              const plan::Target& target,
                              const cost::Ceilings* ceilings);

}  // namespace ridge::train
