// SPDX-License-Identifier: Apache-2.0
// Counts, memory and predicted time of a training step, derived from its graphs alone, and what
// each pass adds to them. Nothing runs.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "backends/backend.h"
#include "cost/ceilings.h"
#include "passes/pass.h"
#include "record/run_record.h"
#include "train/setup.h"

namespace ridge::planning {

// The record of a step that does not run: counts, predicted time and memory, no measurement.
// `ceilings` may be null; then nothing is predicted.
record::RunRecord plan_step(const train::TrainingSetup& setup,
                            const train::TrainingStep& step,
                            const plan::Target& target,
                            const cost::Ceilings* ceilings);
// The same after building the step for the target.
record::RunRecord plan_step(const train::TrainingSetup& setup,
                            const passes::PassTarget& target,
                            const cost::Ceilings* ceilings);

// Returns the owned memory of the step in bytes. Throws an out-of-memory Error if that is more than
// the free memory of the backend's device.
int64_t expect_step_fits(const train::TrainingSetup& setup, const backends::Backend& backend);

// The passes that the selection adds to level baseline, in the order in which they run.
std::vector<const passes::Pass*> added_passes(const passes::Selection& selection,
                                              const backends::Backend& backend);

// Plans the step at level baseline, and again after each of the added passes of its selection.
// Calls `progress` with the name of a pass after planning with it.
std::vector<record::PassCost> pass_costs(const train::TrainingSetup& setup,
                                         const backends::Backend& backend,
                                         const cost::Ceilings& ceilings,
                                         const std::function<void(std::string_view)>& progress);

}  // namespace ridge::planning
