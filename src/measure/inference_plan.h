// SPDX-License-Identifier: Apache-2.0
// What prefill and decode take by their graphs alone: counts, memory and predicted times, the same
// for a session that runs them (experiment.h) and for one that is only planned. Nothing is run.
#pragma once

#include <cstdint>
#include <span>

#include "cost/ceilings.h"
#include "measure/inference_run.h"
#include "models/model_file.h"
#include "record/run_counts.h"
#include "record/run_record.h"

namespace ridge::measure {

// The record of a phase ("prefill", "decode") before anything is counted.
record::RunRecord begin_phase(const InferenceExperiment& experiment,
                              const char* task,
                              const models::ModelConfig& config);
// The counts of the graphs that a phase runs, in its record; returns the graphs as the step record
// wants them. `ceilings` may be null: then nothing is predicted.
std::vector<record::PredictedGraph> count_phase(std::span<const cost::ProgramGraph> graphs,
                                                const cost::Ceilings* ceilings,
                                                record::RunRecord& record);

struct PhasePlan {
  PhaseRecords records;     // of a session as measure_phases runs it, without its times
  int64_t owned_bytes = 0;  // of both phases together: each graph has an arena of its own
};
// Throws what a session would for options out of range.
PhasePlan plan_phases(const models::ModelFile& file,
                      const InferenceExperiment& experiment,
                      const passes::PassTarget& target,
                      const cost::Ceilings* ceilings);
// The plan's owned bytes alone, sooner.
int64_t session_bytes(const models::ModelFile& file,
                      const InferenceExperiment& experiment,
                      const passes::PassTarget& target);

}  // namespace ridge::measure
