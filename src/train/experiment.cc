// SPDX-License-Identifier: Apache-2.0
// Stepping, by turns or at once, and filling the record.
#include "train/experiment.h"

#include <malloc.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/process_memory.h"
#include "plan/planner.h"
#include "record/run_counts.h"
#include "record/step_record.h"

namespace ridge::train {
namespace {

record::RunRecord begin_record(const record::Setting& setting,
                               const models::ModelConfig& config,
                               const StepOptions& options,
                               const std::vector<cost::PassRecord>& passes) {
  record::RunRecord record;
  record.setting = setting;
  record.setting.batch_size = options.batch_size;
  record.setting.sequence = options.sequence;
  record.setting.micro_batches = options.micro_batches;
  record.parameters = config.parameters();
  record.passes = passes;
  return record;
}

// Freed pages that the allocator keeps would be counted as ours.
ProcessMemory settled_memory(const backends::Backend& backend) {
  ::malloc_trim(0);
  return backend.taken_memory();
}

// A host that launches one by one has another speed within seconds, so that each plain step has a
// pace beside it: the median of these and that of the steps are of the same moments.
bool is_predicted_at_pace(const cost::Ceilings* ceilings) {
  return ceilings != nullptr && ceilings->stream_launch_ns > 0;
}

// What measures takes memory of its own when it is first asked, which is not the run's.
backends::Instrument* ready_instruments(const Experiment& e,
                                        backends::Backend& backend,
                                        const cost::Ceilings* ceilings) {
  if (is_predicted_at_pace(ceilings)) backend.present_pace(*ceilings);
  return e.instrument ? backend.instrument() : nullptr;
}

// Enough samples for medians. After them what a clock
// around launches costs is spread over a long run.
constexpr int64_t kDenseSteps = 16, kSampledEvery = 64;
static_assert(kDenseSteps / 2 <= backends::Instrument::kMostRuns);

// Where a device's kernels are written down, launches that the host makes one by one take a fifth
// to a third longer: of one step in sixteen that is up to 2% of a run.
int64_t dense_steps(int64_t steps, const backends::Instrument* instrument) {
  constexpr int64_t kStepsPerRecorded = 16;
  if (instrument == nullptr) return kDenseSteps;
  return 2 * std::clamp<int64_t>(steps / kStepsPerRecorded, 1, kDenseSteps / 2);
}

const Experiment& checked(const Experiment& e) {
  if (e.steps < 1) throw usage_error("[steps] expected at least 1, got {}", e.steps);
  if (e.warmup_steps < 0) throw usage_error("[warmup] expected at least 0, got {}", e.warmup_steps);
  return e;
}

}  // namespace

RunningExperiment::RunningExperiment(const Experiment& e,
                                     backends::Backend& backend,
                                     const cost::Ceilings* ceilings,
                                     StepListener listener)
    : experiment_(checked(e)),
      backend_(backend),
      ceilings_(ceilings),
      listener_(std::move(listener)),
      instrument_(ready_instruments(e, backend, ceilings)),
      dense_steps_(dense_steps(e.steps, instrument_)),
      before_(settled_memory(backend)),
      others_bytes_(before_.resident_bytes - e.foreign_bytes.value_or(before_.resident_bytes)),
      trainer_(e.config, e.step, e.selection, backend, ceilings),
      record_(begin_record(e.setting, e.config, e.step, trainer_.graphs().passes)),
      begun_(-e.warmup_steps),
      finished_(begun_) {
  for (int i = 0; i < trainer_.program().stages(); ++i)
    counted_.push_back(runtime::counted(trainer_.program().stage(i)));
  graphs_ = record::count_graphs(counted_, backend, ceilings, record_);
  record_.memory.before = before_.without(others_bytes_);
  record_.memory.foreign_bytes = record_.memory.before.resident_bytes;
  record_.memory.allocated_bytes = trainer_.owned_bytes();
}

bool RunningExperiment::is_sampled(int64_t step) const {
  if (!experiment_.instrument || step < 0 || step >= experiment_.steps) return false;
  return step < dense_steps_ || (instrument_ == nullptr && step % kSampledEvery < 4);
}

bool RunningExperiment::is_instrumented(int64_t step) const {
  const bool is_inner = step % 4 == 1 || step % 4 == 2;
  const int64_t four = step < dense_steps_ ? step / 4 : step / kSampledEvery;
  return is_sampled(step) && is_inner == (instrument_ != nullptr || four % 2 == 0);
}

bool RunningExperiment::is_alone(int64_t step) const {
  return experiment_.instrument && (experiment_.waits || is_sampled(step));
}

bool RunningExperiment::may_begin() const {
  const int64_t under_way = begun_ - finished_;
  return under_way == 0 || (under_way == 1 && !is_alone(finished_) && !is_alone(begun_));
}

void RunningExperiment::finish(StepResult result) {
  int64_t index = finished_++;
  bool instrumented = is_instrumented(index);
  if (listener_) listener_({index, instrumented, result});
  if (index < 0) return;
  record_.losses.push_back(result.loss);
  if (instrument_ != nullptr && instrumented && !is_instrumented(finished_)) instrument_->rest();
  if (instrumented) {
    instrumented_.push_back({std::move(result.profiles), result.elapsed_ns});
  } else {
    record_.plain_wall_ns.push_back(result.elapsed_ns);
    if (is_sampled(index)) record_.beside_wall_ns.push_back(result.elapsed_ns);
  }
}

void RunningExperiment::take_pace() {
  if (ceilings_ == nullptr) return;
  if (double pace = backend_.present_pace(*ceilings_); pace > 0)
    record_.pace_samples.push_back(pace);
}

void RunningExperiment::take_turn(int64_t steps) {
  const bool is_first = finished_ == -experiment_.warmup_steps;
  take_pace();
  if (is_first) {
    settled_memory(backend_);
    record_.memory.peak_was_reset = reset_peak_memory();
  }
  // The device never waits for the host between plain steps that nothing is compared with.
  const int64_t end = std::min(std::max<int64_t>(finished_, 0) + steps, experiment_.steps);
  while (finished_ < end) {
    const bool none_under_way = begun_ == finished_;
    if (is_instrumented(begun_) && none_under_way) {
      ++begun_;
      finish(trainer_.step(true));
      continue;
    }
    if (is_predicted_at_pace(ceilings_) && none_under_way && begun_ >= 0 && is_alone(begun_))
      take_pace();
    for (; begun_ < end && may_begin(); ++begun_) trainer_.begin_step();
    finish(trainer_.finish_step());
  }
  if (is_first) record_.memory.after = backend_.taken_memory().without(others_bytes_);
  take_pace();
}

record::RunRecord RunningExperiment::record() const {
  record::RunRecord record = record_;
  // One reading before and one after each call.
  if (!instrumented_.empty())
    record.clock_ns = record::clock_reading_ns() * 2 * static_cast<double>(record.launches);
  record.step = record::make_step_record(graphs_, instrumented_);
  if (is_predicted_at_pace(ceilings_) && record.pace().count > 0)
    record.predicted_ns = record::predict_step_ns(
        counted_, graphs_, backend_, cost::at_launch_pace(*ceilings_, record.pace().median));
  return record;
}

record::RunRecord run_experiment(const Experiment& e,
                                 backends::Backend& backend,
                                 const cost::Ceilings* ceilings,
                                 const StepListener& listener,
                                 const TrainedListener& trained) {
  RunningExperiment running(e, backend, ceilings, listener);
  running.take_turn(e.steps);
  record::RunRecord record = running.record();
  if (trained) trained(running.trainer());
  return record;
}

record::RunRecord planned_run(const record::Setting& setting,
                              const models::ModelConfig& config,
                              const StepOptions& options,
                              const TrainingStep& step,
                              const plan::Target& target,
                              const cost::Ceilings* ceilings) {
  record::RunRecord record = begin_record(setting, config, options, step.passes);
  std::vector<runtime::Stage> stages;
  for (const StepGraph& each : step.graphs)
    stages.push_back(
        runtime::plan_stage(each.name, each.graph, static_cast<int>(each.repeat), target));
  std::vector<record::CountedGraph> counted;
  for (const runtime::Stage& stage : stages) counted.push_back(runtime::counted(stage));
  std::vector<record::MeasuredGraph> graphs =
      record::count_graphs(counted, target, ceilings, record);
  record.step = record::make_step_record(graphs, {});
  return record;
}

}  // namespace ridge::train
