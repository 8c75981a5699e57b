// SPDX-License-Identifier: Apache-2.0
// The cost of a training step after each pass.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "backends/backend.h"
#include "cost/ceilings.h"
#include "record/pass_cost.h"
#include "train/setup.h"

namespace ridge::planning {

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
