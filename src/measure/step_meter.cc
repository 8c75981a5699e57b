// SPDX-License-Identifier: Apache-2.0
// Sorts the steps into plain and instrumented ones.
#include "measure/step_meter.h"

#include "record/run_counts.h"

namespace ridge::measure {
namespace {

SamplingSchedule schedule_of(const TrainingExperiment& e, const backends::Instrument* instrument) {
  const int64_t steps = e.steps - e.first_step;
  return e.instrument ? SamplingSchedule::training(steps, instrument != nullptr)
                      : SamplingSchedule::nothing(steps);
}

}  // namespace

StepMeter::StepMeter(const TrainingExperiment& e,
                     backends::Backend& backend,
                     const cost::Ceilings* ceilings)
    : instruments_(e.instrument),
      waits_(e.waits),
      first_step_(e.first_step),
      ceilings_(ceilings),
      launch_rate_(backend, ceilings),
      instrument_(e.instrument ? backend.instrument() : nullptr),
      schedule_(schedule_of(e, instrument_)) {}

train::StepForms StepMeter::forms() const {
  return {[this](int64_t step) { return is_alone(step); },
          [this](int64_t step) { return is_instrumented(step); }};
}

bool StepMeter::is_sampled(int64_t step) const { return schedule_.is_sampled(step - first_step_); }

bool StepMeter::is_instrumented(int64_t step) const {
  return schedule_.is_instrumented(step - first_step_);
}

bool StepMeter::is_alone(int64_t step) const {
  return instruments_ && (waits_ || is_sampled(step));
}

void StepMeter::at_boundary(int64_t) {
  if (instrument_ != nullptr) instrument_->rest();
}

void StepMeter::before_step(int64_t step, bool instrumented) {
  if (instrumented) {
    if (instrument_ == nullptr) hardware_.start();
  } else if (step >= 0 && is_alone(step)) {
    launch_rate_.sample();
  }
}

void StepMeter::after_step(const train::StepEvent& event) {
  const train::StepResult& result = event.result;
  if (event.instrumented && instrument_ == nullptr) hardware_.stop(steps_.counts);
  if (event.index < 0) return;
  steps_.losses.push_back(result.loss);
  steps_.loss_scale = result.loss_scale;
  steps_.overflows += result.overflowed ? 1 : 0;
  steps_.all_wall_ns.push_back(result.elapsed_ns);
  if (event.instrumented && instrument_ != nullptr && !is_instrumented(event.index + 1))
    instrument_->rest();
  // The times of a step that was inspected, or whose update was left out, are no step's.
  const bool is_whole = !result.numerics && (!result.skipped || result.overflowed);
  if (instruments_ && !is_whole) return;
  if (event.instrumented)
    measurement_.add_instrumented(
        {result.profiles, result.elapsed_ns, result.begin_ns, event.index});
  else
    measurement_.add_plain(result.elapsed_ns, is_sampled(event.index));
}

void StepMeter::fill(std::span<const record::PredictedGraph> graphs,
                     record::RunRecord& record) const {
  record.losses = steps_.losses;
  record.loss_scale = steps_.loss_scale;
  record.overflows = steps_.overflows;
  record.all_wall_ns = steps_.all_wall_ns;
  record.counts = steps_.counts;
  record.launch_rate_samples = launch_rate_.samples();
  measurement_.fill(graphs, record);
  if (launch_rate_.matters() && record.launch_rate().count > 0)
    record.predicted_ns = record::predict_step_ns(
        graphs, cost::at_launch_rate(*ceilings_, record.launch_rate().median));
}

}  // namespace ridge::measure
