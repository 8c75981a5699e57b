// SPDX-License-Identifier: Apache-2.0
// Steps a trainer in rounds, times it and fills the record.
#include "measure/training_run.h"

#include <malloc.h>

#include <algorithm>

#include "base/error.h"
#include "record/run_counts.h"

namespace ridge::measure {
namespace {

// Returns freed pages to the system first; otherwise they would count as the experiment's memory.
ProcessMemory settled_memory(const backends::Backend& backend) {
  ::malloc_trim(0);
  return backend.taken_memory();
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
                         const cost::Ceilings* ceilings)
    : experiment_(checked(e)),
      backend_(backend),
      meter_(e, backend, ceilings),
      before_(settled_memory(backend)),
      others_bytes_(before_.resident_bytes - e.foreign_bytes.value_or(before_.resident_bytes)),
      trainer_(e, backend, ceilings, e.weights),
      synthetic_(synthetic_data_of(e)),
      data_(e.data != nullptr ? *e.data : *synthetic_),
      counts_(train::begin_record(e, trainer_.graphs().passes)),
      graphs_(record::count_graphs(trainer_.step_program(), ceilings, counts_)),
      loop_(trainer_, data_, e.first_step - e.warmup_steps, meter_.forms()) {
  counts_.memory.before = before_.without(others_bytes_);
  counts_.memory.foreign_bytes = counts_.memory.before.resident_bytes;
  counts_.memory.allocated_bytes = trainer_.owned_bytes();
  loop_.observe(meter_);
}

void TrainingRun::run_round(int64_t steps, const train::StopCheck& is_stopped) {
  const bool is_first = loop_.finished() == experiment_.first_step - experiment_.warmup_steps;
  meter_.sample_launch_rate();
  if (is_first) {
    settled_memory(backend_);
    counts_.memory.peak_was_reset = reset_peak_memory();
  }
  const int64_t done = std::max<int64_t>(loop_.finished(), 0);
  loop_.run(std::min(done + steps, experiment_.steps), is_stopped);
  if (is_first) counts_.memory.after = backend_.taken_memory().without(others_bytes_);
  meter_.sample_launch_rate();
}

record::RunRecord TrainingRun::record() const {
  record::RunRecord record = counts_;
  meter_.fill(graphs_, record);
  return record;
}

bool is_reportable(const TrainingExperiment& e, const record::RunRecord& record) {
  return !record.plain_wall_ns.empty() && (!e.instrument || !record.step.wall_samples_ns.empty());
}

}  // namespace ridge::measure
