// SPDX-License-Identifier: Apache-2.0
// Options of ridge train for its data, validation, checkpoints and samples, and its checkpoints as
// they name them. Not a subcommand.
#pragma once

#include <cstdint>
#include <string>

#include "apps/command.h"
#include "apps/interrupt.h"
#include "measure/training_samples.h"
#include "train/checkpoint_saver.h"
#include "train/resume.h"
#include "train/training_data.h"

namespace ridge::apps {

void add_training_data_options(Command app, train::TrainingDataOptions& options);

struct PauseOptions {
  int64_t validate_every = 100;
  std::string checkpoints;  // folder; empty: none
  int64_t save_every = 100;
  train::CheckpointPolicy policy;
  bool resume = false;
};
void add_pause_options(Command app, PauseOptions& options);
void check(const PauseOptions& options);
// Options without effect: those of checkpoints without a folder.
Mode without_checkpoints(const PauseOptions& options);

void add_sample_options(Command app, measure::SampleOptions& options);
// Options without effect: those of samples that are off.
Mode without_samples(const measure::SampleOptions& options);

// Finds the newest whole checkpoint and prints which were refused. Throws a usage Error if the
// folder has checkpoints and --resume was not given, and a bad-file Error if none is whole or it
// is of another model.
void find_checkpoint(const PauseOptions& options,
                     const models::ModelConfig& config,
                     train::Resumption& resumption);

// The checkpoints of a training: resumes it, prints what has changed, and saves new ones.
struct Checkpoints {
  Checkpoints(const PauseOptions& options,
              const train::Resumption& resumption,
              train::Trainer& trainer,
              train::TrainingData& data,
              train::SpikeGuard* guard,
              const train::Validation* validation,
              int64_t free_bytes);

  SaveRequest request;
  train::CheckpointWriter writer;
  train::CheckpointSaver saver;
};

}  // namespace ridge::apps
