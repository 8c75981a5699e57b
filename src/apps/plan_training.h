// SPDX-License-Identifier: Apache-2.0
// The training part of ridge plan: from the graph of a step, on one or several machines. Not a
// subcommand.
#pragma once

#include <string>
#include <vector>

#include "apps/command.h"
#include "apps/model_options.h"
#include "apps/plan_layout.h"
#include "apps/plan_place.h"
#include "cost/activation_models.h"
#include "report/terminal.h"

namespace ridge::apps {

struct TrainingPlanRequest {
  const TrainingChoice& choice;
  const MachineOptions& machine;
  const LayoutOptions& layout;
  std::string recompute;  // none, attention, block or full
  double tokens = 0;
  double assumed_mfu = 0;
  double clip_norm = 0;
  bool json = false;
  bool verbose = false;
};

// The switch of a name: "" for none, "+recompute" for block. Throws a usage Error for other names.
std::string recompute_switch(const std::string& name);

// Plans the step on each place and prints the plans: one whole, several as a table.
void plan_training(const TrainingPlanRequest& request,
                   const std::vector<Place>& places,
                   const TerminalOptions& terminal);

}  // namespace ridge::apps
