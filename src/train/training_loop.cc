// SPDX-License-Identifier: Apache-2.0
// Reads the batches of a step.
#include "train/training_loop.h"

namespace ridge::train {

std::vector<Batch> read_step(BatchSource& data, const StepOptions& options) {
  std::vector<Batch> batches;
  for (int64_t i = 0; i < options.micro_batches; ++i)
    batches.push_back(data.next(options.batch_size));
  return batches;
}

}  // namespace ridge::train
