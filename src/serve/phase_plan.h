// SPDX-License-Identifier: Apache-2.0
// What prefill and decode take by their graphs alone: counts, memory and predicted times, the same
// for a session that runs them (experiment.h) and for one that is only planned. Nothing is run.
#pragma once

#include <cstdint>
#include <span>

#include "cost/ceilings.h"
#include "models/model_file.h"
#include "record/run_counts.h"
#include "record/run_record.h"
#include "serve/experiment.h"

namespace ridge::serve {

// The counts of the graphs that a phase runs, in the experiment's record of it; returns the graphs
// as the step record wants them. `ceilings` may be null: then nothing is predicted.
std::vector<record::MeasuredGraph> count_phase(const Experiment& experiment,
                                               const models::ModelConfig& config,
                                               const char* task,
                                               std::span<const record::CountedGraph> graphs,
                                               const plan::Target& target,
                                               const cost::Ceilings* ceilings,
                                               record::RunRecord& record);

struct PhasePlan {
  PhaseRecords records;     // of a session as measure_phases runs it, without its times
  int64_t owned_bytes = 0;  // of both phases together: each graph has an arena of its own
};
// Throws what a session would for options out of range.
PhasePlan plan_phases(const models::ModelFile& file,
                      const Experiment& experiment,
                      const passes::PassTarget& target,
                      const cost::Ceilings* ceilings);
// The plan's owned bytes alone, sooner.
int64_t session_bytes(const models::ModelFile& file,
                      const Experiment& experiment,
                      const passes::PassTarget& target);

}  // namespace ridge::serve
