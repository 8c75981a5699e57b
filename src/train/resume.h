// SPDX-License-Identifier: Apache-2.0
// How a training goes on after a checkpoint: which of its settings must be the same, and what is
// restored.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "backends/collectives/communicator.h"
#include "train/checkpoint.h"
#include "train/setup.h"
#include "train/spike_guard.h"
#include "train/starting_model.h"
#include "train/token_batches.h"

namespace ridge::train {

// Options that a checkpoint keeps as they were typed.
struct TypedSettings {
  std::string spike_guard, pack, freeze;
};

// A training as its checkpoints know it, and the one from which it goes on.
struct Resumption {
  nlohmann::ordered_json settings;       // by name
  std::optional<FoundCheckpoint> found;  // empty: it begins at step 0

  int64_t first_step() const { return found ? found->state.step : 0; }
};
// `data` is TrainingData::identity(). add_model adds the model that the trainer has read; `model`
// may be null.
nlohmann::ordered_json checkpoint_settings(const TrainingSetup& setup,
                                           const TypedSettings& typed,
                                           const nlohmann::ordered_json& data);
void add_model(const StartingModel* model, Resumption& resumption);

// After add_model. Throws a usage Error if a rank has other settings, data, weights or another
// checkpoint than the first one, apart from settings of its machine; every rank throws the same.
void expect_same_training(const Resumption& resumption, backends::Communicator& ranks);

// Throws a bad-file Error if other parameters were trained, whose moments the checkpoint has.
void expect_same_tuning(const Resumption& resumption);

// A setting that differs from the checkpoint's; the values are JSON.
struct SettingChange {
  std::string name, before, now;
};
std::vector<SettingChange> changed_settings(const Resumption& resumption);

// Where a run begins in its data.
struct DataPlace {
  int64_t windows = 0, tokens = 0;
};
// Fills the trainer, the place in the data and the guard, which may be null, if there is a
// checkpoint. Throws a bad-file Error if it has adapters of other weights.
DataPlace resume(const Resumption& resumption,
                 Trainer& trainer,
                 TokenBatches& data,
                 SpikeGuard* guard);

}  // namespace ridge::train
