// SPDX-License-Identifier: Apache-2.0
// What ridge train does between steps: validation, and checkpoints to which a later run returns. Not
// a subcommand.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "apps/command.h"
#include "apps/interrupt.h"
#include "apps/training_data.h"
#include "train/checkpoint.h"
#include "train/spike_guard.h"
#include "train/training_loop.h"

namespace ridge::apps {

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

class TrainingPauses {
 public:
  struct Validation {
    int64_t step = 0;  // steps done
    double loss = 0;
  };
  // Texts from the weights as they are. `is_due` may be empty: there are none.
  struct Sampling {
    std::function<bool(int64_t step)> is_due;
    std::function<void(const train::Trainer& trainer, int64_t step)> sample;
  };
  // `guard` may be null. `settings` are those that a later run may change, by name. `say` prints a
  // line.
  TrainingPauses(const PauseOptions& options,
                 TrainingData& data,
                 train::SpikeGuard* guard,
                 nlohmann::ordered_json settings,
                 std::function<void(const std::string&)> say,
                 std::function<void(const Validation&)> validated,
                 Sampling sampling);

  // The newest valid checkpoint, if there is one and --resume was given. Throws a usage Error if the
  // folder has checkpoints and --resume was not given, and a bad-file Error if none is valid.
  void find(const models::ModelConfig& config, int64_t sequence);
  // The steps that a run has done before this one.
  int64_t first_step() const { return found_ ? found_->state.step : 0; }
  // Fills the trainer and the data's place from the checkpoint that was found. `model` is the identity of the model
  // that the trainer has read, or null. Throws a bad-file Error if the checkpoint has adapters of other weights.
  void resume(train::Trainer& trainer, nlohmann::ordered_json model, int64_t free_bytes);
  train::Pauses pauses(train::Trainer& trainer);
  // After the last step: validates, saves and waits.
  void finish(train::Trainer& trainer, int64_t step);
  double blocked_ns() const { return writer_ ? writer_->blocked_ns() : 0; }

 private:
  // What is due after so many steps.
  struct Work {
    bool validates = false, samples = false, saves = false;
    bool any() const { return validates || samples || saves; }
  };
  Work due(int64_t step) const;
  void pause(train::Trainer& trainer, int64_t step, const Work& work);
  void expect_same_tuning(const nlohmann::json& before) const;
  void expect_same_base(const nlohmann::json& before) const;
  void tell_changes(const nlohmann::json& before) const;

  const PauseOptions& o_;
  TrainingData& data_;
  train::SpikeGuard* guard_;
  nlohmann::ordered_json settings_;
  std::function<void(const std::string&)> say_;
  std::function<void(const Validation&)> validated_;
  Sampling sampling_;
  std::optional<train::FoundCheckpoint> found_;
  std::optional<train::CheckpointWriter> writer_;
  std::optional<SaveRequest> save_request_;
  int64_t free_bytes_ = 0;
  int64_t sequence_ = 0;
  int64_t first_window_ = 0, first_tokens_ = 0;  // at the start of this run
  int64_t validated_step_ = -1, sampled_step_ = -1, saved_step_ = -1;
  std::optional<double> last_loss_;
};

}  // namespace ridge::apps
