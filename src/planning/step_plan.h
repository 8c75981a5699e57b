// SPDX-License-Identifier: Apache-2.0
// Counts, memory and predicted time of a training step, derived from its graphs alone. Nothing
// runs.
#pragma once

#include "backends/backend.h"
#include "passes/pass.h"
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

}  // namespace ridge::planning
