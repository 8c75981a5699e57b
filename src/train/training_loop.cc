// SPDX-License-Identifier: Apache-2.0
// The loop: read a batch, step, report.
#include "train/training_loop.h"

namespace ridge::train {

std::vector<Batch> read_step(WorkshopData& data, const StepOptions& options) {
  std::vector<Batch> batches;
  for (int64_t i = 0; i < options.micro_batches; ++i)
    batches.push_back(data.next(options.batch_size));
  return batches;
}

void run_loop(Trainer& trainer,
              WorkshopData& data,
              int64_t first,
              int64_t end,
              const StepListener& report,
              const StopCheck& is_stopped) {
  int64_t step = first;
  for (; step < end && !is_stopped(); ++step) {
    const std::vector<Batch> batches = read_step(data, trainer.options());
    trainer.begin_step(batches);
    if (step > first) report(step - 1, trainer.finish_step());
  }
  if (step > first) report(step - 1, trainer.finish_step());
}

}  // namespace ridge::train
