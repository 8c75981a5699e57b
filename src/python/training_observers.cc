// SPDX-License-Identifier: Apache-2.0
// Makes the observers of train/, and asks them.
#include "python/training_observers.h"

#include "base/error.h"

namespace ridge::python {

void TrainingObservers::find(const train::TrainingSetup& setup,
                             const train::TypedSettings& typed,
                             const train::TrainingData& data) {
  train::validate(options_);
  resumption_.settings = train::checkpoint_settings(setup, typed, data.identity());
  train::find_checkpoint(options_, setup.config, resumption_,
                         [this](const std::string& line) { notes_.push_back(line); });
}

void TrainingObservers::add_guard(train::Trainer& trainer, const train::SpikeGuard& guard) {
  guard_ = guard;
  trainer.guard([this](double loss) { return guard_->skips_update(loss); });
}

void TrainingObservers::begin(train::Trainer& trainer,
                              train::TrainingData& data,
                              const train::StartingModel* model,
                              int64_t free_bytes) {
  train::add_model(model, resumption_);
  if (backends::Communicator* ranks = trainer.options().shard.all)
    train::expect_same_training(resumption_, *ranks);
  train::SpikeGuard* guard = guard_ ? &*guard_ : nullptr;
  if (!data.validation().empty())
    validation_.emplace(trainer, data.validation(), options_.validate_every,
                        resumption_.first_step(), [](const record::ValidationMetrics&) {});
  if (options_.checkpoints.empty()) return;
  checkpoints_.emplace(options_, resumption_,
                       train::CheckpointedTraining{
                           trainer, data, guard, validation_ ? &*validation_ : nullptr, free_bytes},
                       [this](const std::string& line) { notes_.push_back(line); });
}

void TrainingObservers::after_step(int64_t steps, bool is_last) {
  const auto ask = [&](train::Observer& each) {
    if (is_last)
      each.end(steps);
    else
      each.at_boundary(steps);
  };
  if (validation_) ask(*validation_);
  if (checkpoints_) ask(checkpoints_->saver);
}

void TrainingObservers::save(int64_t steps) {
  if (!checkpoints_) throw usage_error("[checkpoint] expected a trainer with checkpoints=");
  checkpoints_->saver.end(steps);
}

void TrainingObservers::end(int64_t steps) {
  if (checkpoints_ && steps > resumption_.first_step()) checkpoints_->saver.end(steps);
}

std::map<int64_t, double> TrainingObservers::validations() const {
  return validation_ ? validation_->losses() : std::map<int64_t, double>();
}

std::optional<double> TrainingObservers::validated_after(int64_t steps) const {
  return validation_ ? validation_->loss_after(steps) : std::nullopt;
}

}  // namespace ridge::python
