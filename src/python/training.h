// SPDX-License-Identifier: Apache-2.0
// A training that Python steps: the trainer and its data.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "python/errors.h"
#include "python/ranks.h"
#include "python/training_observers.h"
#include "train/loss_gradients.h"
#include "train/starting_model.h"
#include "train/trainer.h"
#include "train/training_choice.h"
#include "train/training_data.h"
#include "train/training_schedule.h"

namespace ridge::python {

struct TrainerOptions {
  train::TrainingOptions training;
  train::TrainingDataOptions data;
  train::ScheduleOptions schedule;
  train::ObserverOptions observers;
  bool gradients = false;  // whether they can be read
  SharedRanks ranks = {};  // null: there is one
  train::RankSharing sharing = {};
};

// A step that has ended.
struct Step {
  int64_t index = 0, tokens = 0;
  double learning_rate = 0;
  train::StepResult result;
  std::optional<double> validation_loss = {};  // if it was validated after this step

  double tokens_per_s() const { return static_cast<double>(tokens) / result.elapsed_ns * 1e9; }
};

class Training {
 public:
  // Throws usage and bad-file Errors, as ridge train does.
  explicit Training(TrainerOptions options);

  // The next step on the training's own data; empty after the last one.
  std::optional<Step> next();
  // A step on these batches, one for each micro-batch.
  Step step(const std::vector<train::Batch>& batches);
  // The loss of these batches and its gradients, without an update.
  train::LossGradients gradients(const std::vector<train::Batch>& batches);
  // All parameters, by their names in a model file.
  std::vector<train::SavedTensor> parameters();
  // Replaces parameters; the others stay as they are. Throws a usage Error for a name that is none
  // or another shape.
  void replace(const std::vector<train::SavedTensor>& tensors);
  void save(const std::string& folder);
  // Saves a checkpoint now. Throws a usage Error without a folder for them.
  void save_checkpoint();
  // The mean loss of the validation data, and those so far by the number of steps.
  double validate();
  std::map<int64_t, double> validations();
  const std::vector<std::string>& notes() const { return observers_.notes(); }
  // Saves a checkpoint if a step was done since the last one, and releases the memory.
  void close();
  bool is_closed();

  const train::StepOptions& step_options() const { return setup_.step; }
  const models::ModelConfig& config() const { return setup_.config; }
  int64_t steps() const { return steps_; }
  int64_t rank() const { return options_.ranks ? options_.ranks->place().rank : 0; }
  int64_t done();

 private:
  train::Trainer& trainer();
  void open_data(const models::TokenizerFile* tokenizer);
  Step taken(train::StepResult result);

  const TrainerOptions options_;
  const OwnProcess process_;
  train::TrainingSetup setup_;
  int64_t steps_ = 0;
  int threads_ = 0;  // OpenMP's, of the thread that opened it
  std::unique_ptr<backends::Backend> backend_;
  std::optional<train::StartingModel> model_;
  std::unique_ptr<train::TrainingData> data_;
  std::unique_ptr<train::BatchSource> synthetic_;
  std::unique_ptr<train::Trainer> trainer_;
  TrainingObservers observers_;  // they know the trainer, so that they end first
  std::mutex mutex_;
};

// Batches of ids [M*B, T] for a step. Labels of the same shape, -1 does not count; by default
// each token's next one. Throws usage Errors.
std::vector<train::Batch> batches_of_ids(const train::StepOptions& step,
                                         int64_t vocabulary,
                                         const std::vector<int32_t>& ids,
                                         const std::vector<int32_t>* labels);

}  // namespace ridge::python
