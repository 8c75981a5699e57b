// SPDX-License-Identifier: Apache-2.0
// Builds, plans and costs a decode step of every rank of those that share a model, and holds their
// collectives against each other. No process is started.
#pragma once

#include "cost/ceilings.h"
#include "models/model_file.h"
#include "planning/plans.h"
#include "record/rank_plan.h"
#include "serve/phase.h"

namespace ridge::planning {

// `setup` is that of a rank, with the switch of shard_tensor_parallel, and `alone` the passes of a
// rank that has the whole model. Throws a usage Error if a collective of a rank differs from the
// first rank's.
record::RankPlan plan_tensor_ranks(const models::ModelFile& file,
                                   const serve::PhaseSetup& setup,
                                   const passes::Selection& alone,
                                   const passes::PassTarget& target,
                                   const cost::Ceilings* ceilings,
                                   const SearchListener& listener);

}  // namespace ridge::planning
