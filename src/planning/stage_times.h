// SPDX-License-Identifier: Apache-2.0
// The predicted time of a step of a pipeline, from the nodes of all its stages.
#pragma once

#include <string>
#include <vector>

#include "cost/ceilings.h"
#include "passes/pass.h"
#include "train/step.h"

namespace ridge::planning {

// A stage computes and exchanges, one event after the other.
struct StageEvent {
  enum class Kind {
    kCompute,  // also an exchange inside the stage
    kSend,     // the other stage has it after ns; this one goes on
    kReceive,
    kMeet,  // a collective of several stages
  };
  Kind kind = Kind::kCompute;
  double ns = 0;
  std::string group = {};
};

std::vector<StageEvent> stage_events(const train::TrainingStep& step,
                                     const passes::PassTarget& target,
                                     const cost::Ceilings& ceilings);

struct StageTimes {
  double step_ns = 0;
  std::vector<double> busy_ns;  // by stage: it computes or exchanges inside the stage

  // The share of the step that stages wait, on average.
  double bubble_share() const;
};
// Runs the lists of all stages, which match, together.
StageTimes simulate(const std::vector<std::vector<StageEvent>>& stages);

}  // namespace ridge::planning
