// SPDX-License-Identifier: Apache-2.0
// Saves checkpoints of a training on its way.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

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

// The parts of a checkpoint that the trainer does not have.
struct CheckpointParts {
  const TokenBatches& data;
  DataPlace begin;                         // where this run began
  const SpikeGuard* guard = nullptr;       // null: none
  const Validation* validation = nullptr;  // null: none; it must be an observer before the saver
  nlohmann::ordered_json settings;
};

struct CheckpointSchedule {
  int64_t every = 0;               // steps
  std::optional<int64_t> resumed;  // the step of the checkpoint from which the run goes on
  SaveRequest request;
  int64_t free_bytes = 0;  // as in CheckpointWriter::save
};

// Saves on its schedule, on request and after the last step.
class CheckpointSaver final : public Observer {
 public:
  CheckpointSaver(Trainer& trainer,
                  CheckpointParts parts,
                  CheckpointWriter& writer,
                  CheckpointSchedule schedule)
      : trainer_(trainer),
        parts_(std::move(parts)),
        writer_(writer),
        schedule_(std::move(schedule)),
        saved_(schedule_.resumed.value_or(-1)) {}

  // Throws the Error of a checkpoint that could not be written.
  bool is_due(int64_t next) override;
  void work(int64_t steps) override;
  void end(int64_t steps) override;  // waits until the last checkpoint is written

 private:
  Trainer& trainer_;
  CheckpointParts parts_;
  CheckpointWriter& writer_;
  CheckpointSchedule schedule_;
  int64_t saved_;
};

}  // namespace ridge::train
