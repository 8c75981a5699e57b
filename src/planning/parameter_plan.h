// SPDX-License-Identifier: Apache-2.0
// Plans training from a number of parameters, without a model: weights, gradients and moments by
// their types, and days by 6 FLOPs per parameter and token at an assumed MFU.
#pragma once

#include <vector>

#include "planning/target_hardware.h"
#include "record/plan_record.h"

namespace ridge::planning {

struct ParameterPlanRequest {
  record::PlanLayout layout;
  double parameters = 0;
  double tokens = 0;
  double mfu = 0;
  std::string dtype = "bf16";  // the type of GEMMs: "fp32", "tf32" or "bf16"
};

// A plan for each hardware. Throws a usage Error for a number of parameters out of range.
std::vector<record::ParameterPlan> plan_parameters(const ParameterPlanRequest& request,
                                                   const std::vector<TargetHardware>& all);

}  // namespace ridge::planning
