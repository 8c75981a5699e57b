// SPDX-License-Identifier: Apache-2.0
// Plans of training and inference for hardware that need not be there. Nothing runs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "models/model_file.h"
#include "planning/target_hardware.h"
#include "record/plan_record.h"
#include "serve/phase.h"
#include "train/setup.h"

namespace ridge::planning {

// How a planner tells of its searches, which may build many graphs. It is called for each trial
// with the name of the search, the unit of its trials and the trial itself: "largest batch", "batch
// sizes", "64 sequences".
using SearchListener =
    std::function<void(std::string_view search, std::string_view unit, const std::string& trial)>;

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

// A plan for each hardware: the memory of each device, the time of a step, what fits, and what
// would make the step fit.
std::vector<record::TrainingPlan> plan_training(const TrainingPlanRequest& request,
                                                const std::vector<TargetHardware>& all,
                                                const SearchListener& listener);

struct InferencePlanRequest {
  serve::PhaseSetup setup;       // for each batch and length
  std::vector<int64_t> batches;  // if empty, 1, 8 and 32
  std::vector<int64_t> lengths;  // if empty, three usual ones that the model's context allows
};

// Time and memory of prefill and decode by batch and length, the largest batches and the longest
// contexts that fit. Throws usage Errors for batches and lengths that a session of the model cannot
// have.
record::InferencePlan plan_inference(const models::ModelFile& file,
                                     const InferencePlanRequest& request,
                                     const TargetHardware& hardware,
                                     const SearchListener& listener);

struct ParameterPlanRequest {
  record::PlanLayout layout;
  double parameters = 0;
  double tokens = 0;
  double mfu = 0;
  std::string dtype = "bf16";  // the type of GEMMs: "fp32", "tf32" or "bf16"
};

// A plan for each hardware, without a model: weights, gradients and moments by their types, and
// days by 6 FLOPs per parameter and token at an assumed MFU. Throws a usage Error for a number of
// parameters out of range.
std::vector<record::ParameterPlan> plan_parameters(const ParameterPlanRequest& request,
                                                   const std::vector<TargetHardware>& all);

}  // namespace ridge::planning
