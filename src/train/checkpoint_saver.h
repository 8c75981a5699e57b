// SPDX-License-Identifier: Apache-2.0
// Saves checkpoints of a training on its way.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "train/checkpoint.h"
#include "train/observer.h"
#include "train/resume.h"
#include "train/spike_guard.h"
#include "train/token_batches.h"
#include "train/validation.h"

namespace ridge::train {

// A wish from outside, for example by a signal, to save a checkpoint before the next step.
struct SaveRequest {
  std::function<bool()> is_set = [] { return false; };
  std::function<void()> clear = [] {};
};

// The parts of a checkpoint beside the trainer.
struct CheckpointParts {
  const TokenBatches& data;
  DataPlace begin;                         // where this run began
  const SpikeGuard* guard = nullptr;       // null: none
  const Validation* validation = nullptr;  // null: none; it must be an observer before the saver
  nlohmann::ordered_json settings;
};

class CheckpointSaver final : public Observer {
 public:
  // Saves each `every` steps, on request and after the last step. `resumed`: the step of the
  // checkpoint from which the run goes on. `free_bytes` is as in CheckpointWriter::save.
  CheckpointSaver(Trainer& trainer,
                  CheckpointParts parts,
                  CheckpointWriter& writer,
                  int64_t every,
                  std::optional<int64_t> resumed,
                  SaveRequest request,
                  int64_t free_bytes);

  // Throws the Error of a checkpoint that could not be written.
  bool is_due(int64_t next) override;
  void pause(int64_t next) override;
  void end(int64_t steps) override;  // waits until the last checkpoint is written

 private:
  void save(int64_t steps);

  Trainer& trainer_;
  CheckpointParts parts_;
  CheckpointWriter& writer_;
  int64_t every_, first_, saved_;
  SaveRequest request_;
  int64_t free_bytes_;
};

}  // namespace ridge::train
