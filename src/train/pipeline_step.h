// SPDX-License-Identifier: Apache-2.0
// The graphs of a step for a stage of a pipeline: "accumulate" runs all micro-batches, and "update"
// follows.
#pragma once

#include "train/step.h"

namespace ridge::train {

// Adds the graphs to `step`, from the forward graph of the whole model, whose load graph loses what
// other stages have. Throws usage Errors: fewer layers than parts, and passes that a pipeline does
// not run with.
void add_pipeline(const Graph& forward,
                  const StepSetup& setup,
                  const passes::PassContext& context,
                  TrainingStep& step);

}  // namespace ridge::train
