// SPDX-License-Identifier: Apache-2.0
// Makes the observers of train/, and asks them.
#include "python/training_observers.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/printable.h"

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
  train::SpikeGuard* guard = guard_ ? &*guard_ : nullptr;
  const train::DataPlace place = train::resume(resumption_, trainer, data.batches(), guard);
  for (const train::SettingChange& each : train::changed_settings(resumption_))
    notes_.push_back(fmt::format("{} was {} and is {}", terminal_safe(each.name),
                                 terminal_safe(each.before, kLongestMessage),
                                 terminal_safe(each.now, kLongestMessage)));
  const int64_t first = resumption_.first_step();
  if (resumption_.found)
    notes_.push_back(fmt::format("Goes on after step {} from {}", first,
                                 terminal_safe(resumption_.found->path.string())));
  if (!data.validation().empty())
    validation_.emplace(trainer, data.validation(), options_.validate_every, first,
                        [](const record::ValidationMetrics&) {});
  if (options_.checkpoints.empty()) return;
  writer_.emplace(options_.checkpoints, options_.policy, data.tokenizer());
  saver_.emplace(
      trainer,
      train::CheckpointParts{data.batches(), place, guard, validation_ ? &*validation_ : nullptr,
                             resumption_.settings},
      *writer_, train::CheckpointSchedule{options_.save_every, first, {}, free_bytes});
}

void TrainingObservers::after_step(int64_t steps, bool is_last) {
  if (validation_ && (is_last || validation_->is_due(steps))) validation_->work(steps);
  if (saver_ && is_last)
    saver_->end(steps);
  else if (saver_ && saver_->is_due(steps))
    saver_->work(steps);
}

void TrainingObservers::save(int64_t steps) {
  if (!saver_) throw usage_error("[checkpoint] expected a trainer with checkpoints=");
  saver_->end(steps);
}

void TrainingObservers::end(int64_t steps) {
  if (saver_ && steps > resumption_.first_step()) saver_->end(steps);
}

std::map<int64_t, double> TrainingObservers::validations() const {
  return validation_ ? validation_->losses() : std::map<int64_t, double>();
}

}  // namespace ridge::python
