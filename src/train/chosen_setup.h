// SPDX-License-Identifier: Apache-2.0
// Brings the parts of a training together that its options choose: sizes, schedule, data, weights.
#pragma once

#include "train/starting_model.h"
#include "train/training_choice.h"
#include "train/training_data.h"
#include "train/training_schedule.h"

namespace ridge::train {

// The choice's setup with the schedule's micro-batches and optimizer and the data's packing. The
// context of the configuration is at least a sequence: the saved model can read what it was trained
// on. Call after make_backend.
TrainingSetup chosen_setup(TrainingChoice& choice,
                           const TrainingSchedule& schedule,
                           const TrainingDataOptions& data,
                           const backends::MachineOptions& machine);

// Makes the data's batches for the setup. A preset is a size: it takes the vocabulary of the data.
// `model` is null if the training starts without weights.
void make_batches(TrainingData& data,
                  const models::ModelOptions& options,
                  const StartingModel* model,
                  TrainingSetup& setup);

}  // namespace ridge::train
