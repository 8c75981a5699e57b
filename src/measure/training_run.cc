// SPDX-License-Identifier: Apache-2.0
// Steps a trainer in rounds, times it and fills the record.
#include "measure/training_run.h"

#include <malloc.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/process_memory.h"
#include "record/run_counts.h"

namespace ridge::measure {
namespace {

// Returns freed pages to the system first; otherwise they would count as the experiment's memory.
ProcessMemory settled_memory(const backends::Backend& backend) {
  ::malloc_trim(0);
  return backend.taken_memory();
}

SamplingSchedule schedule_of(const TrainingExperiment& e, const backends::Instrument* instrument) {
  const int64_t steps = e.steps - e.first_step;
  return e.instrument ? SamplingSchedule::training(steps, instrument != nullptr)
                      : SamplingSchedule::nothing(steps);
}

std::optional<train::SyntheticData> synthetic_data_of(const TrainingExperiment& e) {
  if (e.data != nullptr) return {};
  return train::SyntheticData(e.config.vocabulary, e.step.sequence, train::kSyntheticSeed);
}

const TrainingExperiment& checked(const TrainingExperiment& e) {
  if (e.steps < 1) throw usage_error("[steps] expected at least 1, got {}", e.steps);
  if (e.warmup_steps < 0) throw usage_error("[warmup] expected at least 0, got {}", e.warmup_steps);
  return e;
}

}  // namespace

TrainingRun::TrainingRun(const TrainingExperiment& e,
                         backends::Backend& backend,
                         const cost::Ceilings* ceilings,
                         StepListener listener)
    : experiment_(checked(e)),
      backend_(backend),
      ceilings_(ceilings),
      listener_(std::move(listener)),
      launch_rate_(backend, ceilings),
      instrument_(e.instrument ? backend.instrument() : nullptr),
      schedule_(schedule_of(e, instrument_)),
      before_(settled_memory(backend)),
      others_bytes_(before_.resident_bytes - e.foreign_bytes.value_or(before_.resident_bytes)),
      trainer_(e.config, e.step, e.selection, backend, ceilings, e.weights),
      synthetic_(synthetic_data_of(e)),
      data_(e.data != nullptr ? *e.data : *synthetic_),
      counts_(train::begin_record(e, trainer_.graphs().passes)),
      graphs_(record::count_graphs(trainer_.step_program(), ceilings, counts_)),
      begun_(e.first_step - e.warmup_steps),
      finished_(begun_) {
  counts_.memory.before = before_.without(others_bytes_);
  counts_.memory.foreign_bytes = counts_.memory.before.resident_bytes;
  counts_.memory.allocated_bytes = trainer_.owned_bytes();
}

bool TrainingRun::is_sampled(int64_t step) const {
  return schedule_.is_sampled(step - experiment_.first_step);
}

bool TrainingRun::is_instrumented(int64_t step) const {
  return schedule_.is_instrumented(step - experiment_.first_step);
}

bool TrainingRun::is_alone(int64_t step) const {
  return experiment_.instrument && (experiment_.waits || is_sampled(step));
}

bool TrainingRun::may_begin() const {
  const int64_t under_way = begun_ - finished_;
  return under_way == 0 ||
         (under_way == 1 && !is_alone(finished_) && !is_alone(begun_) && !pauses_.is_due(begun_));
}

void TrainingRun::finish(train::StepResult result) {
  const int64_t index = finished_++;
  const bool instrumented = !result.profiles.empty();
  if (listener_) listener_({index, instrumented, result});
  if (index < 0) return;
  losses_.push_back(result.loss);
  counts_.loss_scale = result.loss_scale;
  counts_.overflows += result.overflowed ? 1 : 0;
  counts_.all_wall_ns.push_back(result.elapsed_ns);
  if (instrument_ != nullptr && instrumented && !is_instrumented(finished_)) instrument_->rest();
  // The times of a step that was inspected, or whose update was left out, are no step's.
  const bool is_whole = !result.numerics && (!result.skipped || result.overflowed);
  if (experiment_.instrument && !is_whole) return;
  if (instrumented)
    measurement_.add_instrumented(
        {std::move(result.profiles), result.elapsed_ns, result.begin_ns, index});
  else
    measurement_.add_plain(result.elapsed_ns, is_sampled(index));
}

void TrainingRun::pause_if_due() {
  if (paused_ == begun_ || !pauses_.is_due(begun_)) return;
  paused_ = begun_;
  if (instrument_ != nullptr) instrument_->rest();
  pauses_.pause(begun_);
}

void TrainingRun::step_instrumented() {
  ++begun_;
  const std::vector<train::Batch> batches = train::read_step(data_, experiment_.step);
  if (instrument_ == nullptr) hardware_.start();
  train::StepResult result = trainer_.step(batches, true);
  if (instrument_ == nullptr) hardware_.stop(counts_.counts);
  finish(std::move(result));
}

void TrainingRun::run_round(int64_t steps, const train::StopCheck& is_stopped) {
  const bool is_first = finished_ == experiment_.first_step - experiment_.warmup_steps;
  launch_rate_.sample();
  if (is_first) {
    settled_memory(backend_);
    counts_.memory.peak_was_reset = reset_peak_memory();
  }
  // The device never waits for the host between plain steps that are not compared with instrumented
  // ones.
  const int64_t end = std::min(std::max<int64_t>(finished_, 0) + steps, experiment_.steps);
  while (finished_ < end) {
    const bool stops = is_stopped();
    if (begun_ == finished_) {
      if (stops) break;
      pause_if_due();
      if (is_instrumented(begun_) && !trainer_.inspects_next()) {
        step_instrumented();
        continue;
      }
      if (begun_ >= 0 && is_alone(begun_)) launch_rate_.sample();
    }
    for (; !stops && begun_ < end && may_begin(); ++begun_)
      trainer_.begin_step(train::read_step(data_, experiment_.step));
    finish(trainer_.finish_step());
  }
  if (is_first) counts_.memory.after = backend_.taken_memory().without(others_bytes_);
  launch_rate_.sample();
}

record::RunRecord TrainingRun::record() const {
  record::RunRecord record = counts_;
  record.losses = losses_;
  record.launch_rate_samples = launch_rate_.samples();
  measurement_.fill(graphs_, record);
  if (launch_rate_.matters() && record.launch_rate().count > 0)
    record.predicted_ns = record::predict_step_ns(
        graphs_, cost::at_launch_rate(*ceilings_, record.launch_rate().median));
  return record;
}

bool is_reportable(const TrainingExperiment& e, const record::RunRecord& record) {
  return !record.plain_wall_ns.empty() && (!e.instrument || !record.step.wall_samples_ns.empty());
}

record::RunRecord measure_training(const TrainingExperiment& e,
                                   backends::Backend& backend,
                                   const cost::Ceilings* ceilings,
                                   const StepListener& listener) {
  TrainingRun run(e, backend, ceilings, listener);
  run.run_round(e.steps);
  return run.record();
}

}  // namespace ridge::measure
