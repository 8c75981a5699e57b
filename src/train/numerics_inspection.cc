// SPDX-License-Identifier: Apache-2.0
// Asks the trainer to inspect the next step.
#include "train/numerics_inspection.h"

namespace ridge::train {

NumericsInspection::NumericsInspection(Trainer& trainer, int64_t every, int64_t steps)
    : trainer_(trainer), every_(every), steps_(steps) {}

bool NumericsInspection::is_due(int64_t next) {
  if (next < 0) return false;
  return next + 1 == steps_ || (every_ > 0 && (next + 1) % every_ == 0);
}

void NumericsInspection::pause(int64_t next) {
  if (is_due(next)) trainer_.inspect_next();
}

}  // namespace ridge::train
