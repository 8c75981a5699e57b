// SPDX-License-Identifier: Apache-2.0
// The checkpoints of a training as its options name them: the one from which it goes on, and the
// new ones.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "train/checkpoint_saver.h"
#include "train/resume.h"
#include "train/training_data.h"

namespace ridge::train {

struct ObserverOptions {
  int64_t validate_every = 100;
  std::string checkpoints;  // folder; empty: none
  int64_t save_every = 100;
  CheckpointPolicy policy;
  bool resume = false;
};
void validate(const ObserverOptions& options);  // throws usage Errors

// Called with a line about a checkpoint that is refused or gone on from.
using CheckpointNote = std::function<void(const std::string& line)>;

// Finds the newest whole checkpoint, and notes which were refused. Throws a usage Error if the
// folder has checkpoints and `resume` is not set, and a bad-file Error if none is whole or it is of
// another model.
void find_checkpoint(const ObserverOptions& options,
                     const models::ModelConfig& config,
                     Resumption& resumption,
                     const CheckpointNote& note);

// The parts of a training that a checkpoint has.
struct CheckpointedTraining {
  Trainer& trainer;
  TrainingData& data;
  SpikeGuard* guard;             // null: none
  const Validation* validation;  // null: none
  int64_t free_bytes;            // as in CheckpointWriter::save
};

// Resumes the training, notes what has changed, and saves new checkpoints, also on request.
struct TrainingCheckpoints {
  TrainingCheckpoints(const ObserverOptions& options,
                      const Resumption& resumption,
                      const CheckpointedTraining& training,
                      const CheckpointNote& note,
                      SaveRequest request = {});

  CheckpointWriter writer;
  CheckpointSaver saver;
};

}  // namespace ridge::train
