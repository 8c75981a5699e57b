// SPDX-License-Identifier: Apache-2.0
// Counts, memory and predicted times of prefill and decode, derived from their graphs alone. They
// are the same for a session that runs (inference_run.h) and for one that is only planned. Nothing
// runs.
#pragma once

#include <cstdint>
#include <map>
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
// Adds the counts of a phase's graphs to its record, and returns the graphs with their predictions.
// `ceilings` may be null; then nothing is predicted.
std::vector<record::PredictedGraph> count_phase(std::span<const cost::ProgramGraph> graphs,
                                                const cost::Ceilings* ceilings,
                                                record::RunRecord& record);

struct PhasePlan {
  PhaseRecords records;     // as from measure_phases, without measured times
  int64_t owned_bytes = 0;  // both phases together: each graph has its own arena
  // The bytes of the weights by the type in which a session holds them.
  std::map<DType, int64_t> held_bytes;
};
// Throws the same Errors as a session for options out of range.
PhasePlan plan_phases(const models::ModelFile& file,
                      const InferenceExperiment& experiment,
                      const passes::PassTarget& target,
                      const cost::Ceilings* ceilings);
// Only PhasePlan::owned_bytes; faster than plan_phases.
int64_t session_bytes(const models::ModelFile& file,
                      const InferenceExperiment& experiment,
                      const passes::PassTarget& target);

}  // namespace ridge::measure
