// SPDX-License-Identifier: Apache-2.0
// Counts, memory and predicted times of prefill and decode, derived from their graphs alone. They
// are those of a session that runs (measure/inference_run.h). Nothing runs.
#pragma once

#include <cstdint>

#include "cost/ceilings.h"
#include "models/model_file.h"
#include "record/plan_record.h"
#include "serve/phase.h"

namespace ridge::planning {

// Throws the same Errors as a session for options out of range.
record::PhasePlan plan_phases(const models::ModelFile& file,
                              const serve::PhaseSetup& setup,
                              const passes::PassTarget& target,
                              const cost::Ceilings* ceilings);
// Only PhasePlan::owned_bytes; faster than plan_phases.
int64_t session_bytes(const models::ModelFile& file,
                      const serve::PhaseSetup& setup,
                      const passes::PassTarget& target);

}  // namespace ridge::planning
