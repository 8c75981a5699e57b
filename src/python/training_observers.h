// SPDX-License-Identifier: Apache-2.0
// The work of a trainer between its steps, as `ridge train` does it: it validates, saves
// checkpoints, goes on after one, and guards against spikes. Each is done as soon as it is due, so
// that a step that Python sees has its validation and its checkpoint.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "train/checkpoint_saver.h"
#include "train/training_checkpoints.h"
#include "train/training_data.h"
#include "train/training_schedule.h"
#include "train/validation.h"

namespace ridge::python {

class TrainingObservers {
 public:
  explicit TrainingObservers(train::ObserverOptions options) : options_(std::move(options)) {}
  TrainingObservers(const TrainingObservers&) = delete;

  // Finds the checkpoint from which the training goes on. Throws as train::find_checkpoint does.
  void find(const train::TrainingSetup& setup,
            const train::TypedSettings& typed,
            const train::TrainingData& data);
  void add_guard(train::Trainer& trainer, const train::SpikeGuard& guard);
  // After find. The trainer gets the state of the checkpoint. `model` may be null. All must outlive
  // this.
  void begin(train::Trainer& trainer,
             train::TrainingData& data,
             const train::StartingModel* model,
             int64_t free_bytes);

  // Does what is due after so many steps, all of it if none follow.
  void after_step(int64_t steps, bool is_last);
  // Saves a checkpoint of this state now, unless there is one, and waits until it is written.
  // Throws a usage Error if the training has none.
  void save(int64_t steps);
  // The same at the end, if a step was done.
  void end(int64_t steps);

  std::map<int64_t, double> validations() const;  // by the steps done
  std::optional<double> validated_after(int64_t steps) const;
  // Checkpoints that were refused or gone on from, and settings that have changed since.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  const train::ObserverOptions options_;
  train::Resumption resumption_;
  std::vector<std::string> notes_;
  std::optional<train::SpikeGuard> guard_;
  std::optional<train::Validation> validation_;
  std::optional<train::TrainingCheckpoints> checkpoints_;
};

}  // namespace ridge::python
