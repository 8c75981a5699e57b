// SPDX-License-Identifier: Apache-2.0
// Builds, plans and costs the step of every rank of a layout by itself, and holds their collectives
// against each other. No process is started.
#pragma once

#include "cost/ceilings.h"
#include "passes/pass.h"
#include "plan/collectives.h"
#include "planning/plans.h"
#include "record/rank_plan.h"
#include "train/setup.h"

namespace ridge::planning {

// A collective as tables show it; without a time if `ceilings` is null.
record::PlannedCollective planned_collective(const plan::Collective& collective,
                                             int64_t repeat,
                                             const cost::Ceilings* ceilings);

// `setup` is that of a rank, with the switches of its layout: neighbours share a model if the pass
// train_tensor_parallel is on, and its share says how many stages there are. Throws usage Errors: a
// collective of a rank that differs from the first rank's, or that waits forever, and ranks that
// are no multiple of those that share a model.
record::RankPlan plan_ranks(const train::TrainingSetup& setup,
                            int64_t ranks,
                            const passes::PassTarget& target,
                            const cost::Ceilings* ceilings,
                            const SearchListener& listener);

}  // namespace ridge::planning
