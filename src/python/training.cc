// SPDX-License-Identifier: Apache-2.0
// Opens a training as ridge train does, and steps it.
#include "python/training.h"

#include <omp.h>

#include <algorithm>
#include <utility>

#include "backends/machine.h"
#include "base/error.h"
#include "base/openmp_threads.h"
#include "base/printable.h"
#include "bench/attention_choice.h"
#include "train/chosen_setup.h"
#include "train/saved_state.h"
#include "train/synthetic_data.h"
#include "train/trained_model.h"
#include "train/training_loop.h"

namespace ridge::python {

Training::Training(TrainerOptions options)
    : options_(std::move(options)), observers_(options_.observers) {
  train::TrainingChoice choice(options_.training);
  if (options_.ranks) choice.share(*options_.ranks, options_.sharing);
  bench::choose_attention(options_.training, choice);
  backend_ = backends::make_backend(options_.training.machine, choice.selection);
  threads_ = omp_get_max_threads();
  passes::expect_effect(choice.switches, passes::Serves::kTraining, *backend_);
  const train::TrainingSchedule schedule(options_.schedule, choice.step, options_.data.is_given());
  setup_ = train::chosen_setup(choice, schedule, options_.data, options_.training.machine);
  setup_.step.separates_update = options_.gradients || schedule.guard;
  setup_.step.loss_scaling = options_.schedule.loss_scaling;
  train::expect_steps(schedule.steps, 1, 0);
  steps_ = schedule.steps;
  runtime::TensorSource weights;
  const models::TokenizerFile* tokenizer = nullptr;
  if (choice.model.file != nullptr) {
    model_.emplace(choice.model.file, [](int64_t) {});
    weights = model_->weights();
    tokenizer = model_->tokenizer();
  }
  if (options_.data.is_given())
    open_data(tokenizer);
  else
    synthetic_ = std::make_unique<train::SyntheticData>(
        setup_.config.vocabulary, setup_.step.sequence, train::kSyntheticSeed);
  trainer_ = std::make_unique<train::Trainer>(setup_, *backend_, nullptr, weights);
  if (options_.ranks) runtime::expect_same_collectives(*options_.ranks, trainer_->step_program());
  if (schedule.guard) observers_.add_guard(*trainer_, *schedule.guard);
  if (data_)
    observers_.begin(*trainer_, *data_, model_ ? &*model_ : nullptr, backend_->available_bytes());
}

void Training::open_data(const models::TokenizerFile* tokenizer) {
  data_ = std::make_unique<train::TrainingData>(options_.data, setup_.config.vocabulary, tokenizer,
                                                [](int64_t, int64_t) {});
  train::make_batches(*data_, options_.training.model, model_ ? &*model_ : nullptr, setup_);
  setup_.step.evaluates = !data_->validation().empty();
  observers_.find(setup_,
                  {options_.schedule.spike_guard, options_.data.pack, options_.training.freeze},
                  *data_);
}

train::Trainer& Training::trainer() {
  process_.expect();
  if (trainer_ == nullptr)
    throw usage_error("[trainer] expected an open trainer, this one was closed");
  return *trainer_;
}

void Training::close() {
  const std::lock_guard lock(mutex_);
  if (trainer_ == nullptr) return;
  const std::unique_ptr<train::Trainer> ended = std::move(trainer_);
  if (process_.is_this()) observers_.end(ended->steps());
}

bool Training::is_closed() {
  const std::lock_guard lock(mutex_);
  return trainer_ == nullptr;
}

void Training::save_checkpoint() {
  const std::lock_guard lock(mutex_);
  observers_.save(trainer().steps());
}

double Training::validate() {
  const std::lock_guard lock(mutex_);
  const OpenmpThreads team(threads_);
  train::Trainer& open = trainer();
  if (!setup_.step.evaluates) throw usage_error("[validate] expected a trainer with val_data=");
  return open.evaluate(data_->validation());
}

std::map<int64_t, double> Training::validations() {
  const std::lock_guard lock(mutex_);
  return observers_.validations();
}

int64_t Training::done() {
  const std::lock_guard lock(mutex_);
  return trainer().steps();
}

Step Training::taken(train::StepResult result) {
  Step step{trainer_->steps() - 1,
            setup_.step.shard.ranks * setup_.step.batch_size * setup_.step.sequence *
                setup_.step.micro_batches,
            train::learning_rate(setup_.step.optimizer, trainer_->steps()),
            {}};
  step.result = std::move(result);
  if (options_.ranks) options_.ranks->watch().set_first_step_done();
  const int64_t done = trainer_->steps();
  observers_.after_step(done, done == steps_);
  step.validation_loss = observers_.validated_after(done);
  return step;
}

std::optional<Step> Training::next() {
  const std::lock_guard lock(mutex_);
  const OpenmpThreads team(threads_);
  if (trainer().steps() >= steps_) return {};
  train::BatchSource& source =
      data_ ? static_cast<train::BatchSource&>(data_->batches()) : *synthetic_;
  return taken(trainer_->step(train::read_step(source, setup_.step)));
}

Step Training::step(const std::vector<train::Batch>& batches) {
  const std::lock_guard lock(mutex_);
  const OpenmpThreads team(threads_);
  return taken(trainer().step(batches));
}

train::LossGradients Training::gradients(const std::vector<train::Batch>& batches) {
  const std::lock_guard lock(mutex_);
  const OpenmpThreads team(threads_);
  if (!setup_.step.separates_update)
    throw usage_error("[gradients] expected a trainer that was made with gradients=True");
  return train::loss_gradients(trainer(), batches);
}

std::vector<train::SavedTensor> Training::parameters() {
  const std::lock_guard lock(mutex_);
  return train::saved_tensors(trainer());
}

void Training::replace(const std::vector<train::SavedTensor>& tensors) {
  const std::lock_guard lock(mutex_);
  std::vector<train::SavedTensor> all = train::saved_tensors(trainer());
  for (const train::SavedTensor& each : tensors) {
    const auto found =
        std::ranges::find_if(all, [&](const auto& known) { return known.name == each.name; });
    if (found == all.end())
      throw usage_error("[parameters] expected the name of a parameter, got {}",
                        printable(each.name));
    if (found->shape != each.shape)
      throw usage_error("[parameters] expected {} for {}, got {}", found->shape.str(), each.name,
                        each.shape.str());
    found->values = each.values;
  }
  train::restore_tensors(trainer(), [&](const std::string& name, const Shape&) {
    return std::ranges::find_if(all, [&](const auto& each) { return each.name == name; })->values;
  });
}

void Training::save(const std::string& folder) {
  const std::lock_guard lock(mutex_);
  const models::TokenizerFile* tokenizer = data_    ? data_->tokenizer()
                                           : model_ ? model_->tokenizer()
                                                    : nullptr;
  train::save_model(trainer(), folder, tokenizer);
}

std::vector<train::Batch> batches_of_ids(const train::StepOptions& step,
                                         int64_t vocabulary,
                                         const std::vector<int32_t>& ids,
                                         const std::vector<int32_t>* labels) {
  const auto row = static_cast<size_t>(step.sequence);
  const size_t tokens = row * static_cast<size_t>(step.batch_size);
  if (ids.size() != tokens * static_cast<size_t>(step.micro_batches) ||
      (labels != nullptr && labels->size() != ids.size()))
    throw usage_error("[batch] expected ids, and labels if given, of {} sequences of {} tokens",
                      step.batch_size * step.micro_batches, step.sequence);
  const auto expect_below = [&](int32_t id, int32_t least) {
    if (id < least || id >= vocabulary)
      throw usage_error("[batch] expected ids from {} to {}, got {}", least, vocabulary - 1, id);
  };
  std::vector<train::Batch> batches(static_cast<size_t>(step.micro_batches));
  for (size_t i = 0; i < ids.size(); ++i) {
    train::Batch& batch = batches[i / tokens];
    const bool is_last = i % row + 1 == row;
    const int32_t label = labels != nullptr ? (*labels)[i] : is_last ? -1 : ids[i + 1];
    expect_below(ids[i], 0), expect_below(label, -1);
    batch.ids.push_back(ids[i]);
    batch.positions.push_back(static_cast<int32_t>(i % row));
    batch.labels.push_back(label);
  }
  for (const train::Batch& each : batches)
    if (std::ranges::all_of(each.labels, [](int32_t label) { return label < 0; }))
      throw usage_error("[batch] expected a label in each micro-batch, all are -1");
  return batches;
}

}  // namespace ridge::python
