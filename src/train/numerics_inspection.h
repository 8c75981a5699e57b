// SPDX-License-Identifier: Apache-2.0
// Chooses the steps of a training whose numbers are counted.
#pragma once

#include <cstdint>

#include "train/observer.h"

namespace ridge::train {

// Inspects the last of `steps` steps, and those before it at the end of each `every` steps (0:
// none). It must follow the observers that run other work on the trainer.
class NumericsInspection final : public Observer {
 public:
  NumericsInspection(Trainer& trainer, int64_t every, int64_t steps);

  bool is_due(int64_t next) override;
  void pause(int64_t next) override;

 private:
  Trainer& trainer_;
  int64_t every_, steps_;
};

}  // namespace ridge::train
