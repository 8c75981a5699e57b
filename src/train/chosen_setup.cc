// SPDX-License-Identifier: Apache-2.0
// Copies what each part knows.
#include "train/chosen_setup.h"

#include <algorithm>

namespace ridge::train {

TrainingSetup chosen_setup(TrainingChoice& choice,
                           const TrainingSchedule& schedule,
                           const TrainingDataOptions& data,
                           const backends::MachineOptions& machine) {
  choice.step.micro_batches = schedule.micro_batches;
  TrainingSetup setup = choice.setup(machine);
  setup.step.optimizer = schedule.optimizer;
  setup.step.packing = data.packing();
  setup.config.context = std::max(setup.config.context, setup.step.sequence);
  return setup;
}

void make_batches(TrainingData& data,
                  const models::ModelOptions& options,
                  const StartingModel* model,
                  TrainingSetup& setup) {
  if (options.is_preset() && data.vocabulary() > 0) setup.config.vocabulary = data.vocabulary();
  const models::TokenizerFile* known = model != nullptr ? model->tokenizer() : nullptr;
  const int64_t tokens = known != nullptr ? std::ssize(known->spec.tokens) : 0;
  data.make_batches(setup.step.sequence, {setup.config.vocabulary, tokens}, setup.step.batch_size);
}

}  // namespace ridge::train
