// SPDX-License-Identifier: Apache-2.0
// Measures a whole training experiment in one round.
#pragma once

#include <functional>

#include "measure/training_run.h"

namespace ridge::measure {

using StepFunction = std::function<void(const train::StepEvent&)>;

// `listener` is called after each step.
inline record::RunRecord measure_training(const TrainingExperiment& e,
                                          backends::Backend& backend,
                                          const cost::Ceilings* ceilings,
                                          const StepFunction& listener = {}) {
  TrainingRun run(e, backend, ceilings);
  train::StepListener observer(listener);
  if (listener) run.observe(observer);
  run.run_round(e.steps);
  return run.record();
}

}  // namespace ridge::measure
