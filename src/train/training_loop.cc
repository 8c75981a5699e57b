// SPDX-License-Identifier: Apache-2.0
// The loop: read a batch, step, report.
#include "train/training_loop.h"

namespace ridge::train {

std::vector<Batch> read_step(BatchSource& data, const StepOptions& options) {
  std::vector<Batch> batches;
  for (int64_t i = 0; i < options.micro_batches; ++i)
    batches.push_back(data.next(options.batch_size));
  return batches;
}

int64_t run_loop(Trainer& trainer,
                 BatchSource& data,
                 int64_t first,
                 int64_t end,
                 const StepListener& report,
                 const StopCheck& is_stopped,
                 const Pauses& pauses) {
  int64_t step = first, reported = first;
  auto finish = [&] {
    for (; reported < step; ++reported) report(reported, trainer.finish_step());
  };
  for (; step < end && !is_stopped(); ++step) {
    if (pauses.is_due(step)) {
      finish();
      pauses.pause(step);
    }
    const std::vector<Batch> batches = read_step(data, trainer.options());
    trainer.begin_step(batches);
    if (reported < step) {
      report(reported, trainer.finish_step());
      ++reported;
    }
  }
  finish();
  return step;
}

}  // namespace ridge::train
