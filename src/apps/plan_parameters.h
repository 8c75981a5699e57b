// SPDX-License-Identifier: Apache-2.0
// The part of ridge plan that knows a number of parameters and nothing else of the model. Not a
// subcommand.
#pragma once

#include <vector>

#include "apps/plan_layout.h"
#include "apps/plan_place.h"
#include "report/terminal.h"

namespace ridge::apps {

struct ParameterPlanRequest {
  const LayoutOptions& layout;
  double parameters = 0;
  double tokens = 0;
  double mfu = 0;
  DType dtype = DType::kBF16;  // of GEMMs
  bool is_tf32 = false;
  bool json = false;
};

// The most parameters of such a plan.
inline constexpr double kMostPlannedParameters = 1e15;

// Weights, gradients and moments by their types, and days by 6 FLOPs per parameter and token at an
// assumed MFU. Prints one plan whole, several as a table.
void plan_parameters(const ParameterPlanRequest& request,
                     const std::vector<Place>& places,
                     const TerminalOptions& terminal);

}  // namespace ridge::apps
