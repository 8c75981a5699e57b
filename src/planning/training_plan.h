// SPDX-License-Identifier: Apache-2.0
// Plans training of a model: the memory of each device, the time of a step, what fits, and what
// would make the step fit.
#pragma once

#include <string>
#include <vector>

#include "planning/search_listener.h"
#include "planning/target_hardware.h"
#include "train/setup.h"

namespace ridge::planning {

struct TrainingPlanRequest {
  train::TrainingSetup setup;  // without the switch of `recompute`
  record::PlanLayout layout;
  std::string recompute = "none";  // or "attention", "block", "full"
  double tokens = 0;
  double assumed_mfu = 0;
};

// The switch of passes for a name: "" for none, "+recompute" for block. Throws a usage Error for
// other names.
std::string recompute_switch(const std::string& name);

// A plan for each hardware.
std::vector<record::TrainingPlan> plan_training(const TrainingPlanRequest& request,
                                                const std::vector<TargetHardware>& all,
                                                const SearchListener& listener);

}  // namespace ridge::planning
