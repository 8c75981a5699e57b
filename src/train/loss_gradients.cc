// SPDX-License-Identifier: Apache-2.0
// Takes a step whose update is left out once the gradients have been read.
#include "train/loss_gradients.h"

#include "base/error.h"

namespace ridge::train {

LossGradients loss_gradients(Trainer& trainer, std::span<const Batch> batches) {
  RIDGE_CHECK(trainer.options().separates_update, "the update reads and clears the gradients");
  LossGradients made;
  const int64_t steps = trainer.steps();
  trainer.guard([&](double loss) {
    made = {loss, saved_tensors(trainer, ".gradient")};
    return true;
  });
  trainer.step(batches);
  trainer.guard({});
  trainer.resume_after(steps);
  return made;
}

}  // namespace ridge::train
