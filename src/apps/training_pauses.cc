// SPDX-License-Identifier: Apache-2.0
// Validates, saves and resumes. Not a subcommand.
#include "apps/training_pauses.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "files/json.h"

namespace ridge::apps {
void add_pause_options(Command app, PauseOptions& o) {
  app.under("Data")
      .add_option("--val-every", o.validate_every, "steps from one validation to the next")
      .show_default();
  app = app.under("Checkpoints");
  app.add_option("--checkpoints", o.checkpoints,
                 "save all that training needs to go on to this folder");
  app.add_option("--save-every", o.save_every, "steps from one checkpoint to the next")
      .show_default();
  app.add_option("--keep", o.policy.keep, "checkpoints that stay, the newest ones").show_default();
  app.add_flag("--keep-best", o.policy.keep_best,
               "the checkpoint with the lowest validation loss stays too");
  app.add_flag("--resume", o.resume, "go on after the newest checkpoint that is whole");
}

void check(const PauseOptions& o) {
  auto expect = [](const char* option, int64_t value) {
    if (value < 1) throw usage_error("[{}] expected at least 1, got {}", option, value);
  };
  expect("val-every", o.validate_every);
  expect("save-every", o.save_every);
  expect("keep", o.policy.keep);
}

Mode without_checkpoints(const PauseOptions& o) {
  return {o.checkpoints.empty(),
          "without --checkpoints",
          {"--save-every", "--keep", "--keep-best", "--resume"}};
}

TrainingPauses::TrainingPauses(const PauseOptions& options,
                               TrainingData& data,
                               train::SpikeGuard* guard,
                               nlohmann::ordered_json settings,
                               std::function<void(const std::string&)> say,
                               std::function<void(const Validation&)> validated,
                               Sampling sampling)
    : o_(options),
      data_(data),
      guard_(guard),
      settings_(files::as_written(settings)),
      say_(std::move(say)),
      validated_(std::move(validated)),
      sampling_(std::move(sampling)) {}

void TrainingPauses::find(const models::ModelConfig& config, int64_t sequence) {
  sequence_ = sequence;
  if (o_.checkpoints.empty()) return;
  std::vector<train::RefusedCheckpoint> refused;
  found_ = train::newest_checkpoint(o_.checkpoints, refused);
  if (!o_.resume && (found_ || !refused.empty()))
    throw usage_error("[checkpoints] {} has checkpoints; --resume goes on after the newest",
                      printable(o_.checkpoints));
  for (const train::RefusedCheckpoint& each : refused)
    fmt::print(stderr, "Refused {}: {}\n", terminal_safe(each.path.string()),
               terminal_safe(each.reason, kLongestMessage));
  if (!found_ && !refused.empty())
    throw file_error("[checkpoints] expected a whole checkpoint in {}, found none of {}",
                     o_.checkpoints, refused.size());
  if (!found_) {
    if (o_.resume)
      fmt::print(stderr, "There is no checkpoint in {} yet; training begins at step 0.\n",
                 terminal_safe(o_.checkpoints));
    return;
  }
  train::expect_same_model(*found_, config);
  expect_same_tuning(found_->state.settings);
}

// The moments of a checkpoint are those of what was trained.
void TrainingPauses::expect_same_tuning(const nlohmann::json& before) const {
  const nlohmann::json now = settings_;
  for (const char* key : {"freeze", "lora"}) {
    const nlohmann::json old = before.contains(key) ? before[key] : nlohmann::json();
    const bool is_none = old.is_null() && (now[key].is_null() || now[key] == "");
    if (!is_none && old != now[key])
      throw file_error("[{}] expected {} {}, as in this training, found {}", found_->path.string(),
                       key, now[key].dump(), printable(old.dump()));
  }
}

// Adapters are a difference from the weights beside which they were trained.
void TrainingPauses::expect_same_base(const nlohmann::json& before) const {
  const auto weights_of = [](const nlohmann::json& settings) {
    const nlohmann::json model = settings.value("model", nlohmann::json());
    return model.is_object() ? model.value("weights", nlohmann::json()) : nlohmann::json();
  };
  const nlohmann::json now = settings_, expected = weights_of(now), found = weights_of(before);
  if (expected != found)
    throw file_error(
        "[{}] expected adapters of a model whose weights have the hash {}, as those of --model, found {}",
        found_->path.string(), expected.dump(), printable(found.dump()));
}

void TrainingPauses::resume(train::Trainer& trainer,
                            nlohmann::ordered_json model,
                            int64_t free_bytes) {
  settings_["model"] = files::as_written(model);
  free_bytes_ = free_bytes;
  if (!o_.checkpoints.empty()) {
    writer_.emplace(o_.checkpoints, o_.policy, data_.tokenizer());
    save_request_.emplace();
  }
  if (!found_) return;
  if (trainer.graphs().has_adapters) expect_same_base(found_->state.settings);
  train::restore(*found_, trainer);
  const train::TrainingState& state = found_->state;
  const nlohmann::json before = state.settings;
  tell_changes(before);
  // Windows of another length begin elsewhere: the place is that of the same number of tokens.
  const auto length_before = before.find("seq_len");
  const int64_t length = length_before != before.end() && length_before->is_number_integer()
                             ? length_before->get<int64_t>()
                             : sequence_;
  first_window_ = length == sequence_ ? state.windows : state.windows * length / sequence_;
  first_tokens_ = state.tokens;
  if (guard_ != nullptr && !state.guard.is_null())
    guard_->restore(state.guard.get<std::vector<double>>());
  saved_step_ = state.step;
  last_loss_ = state.validation_loss;
  data_.batches().seek(first_window_);
  fmt::print(stderr, "Resuming after step {} from {}.\n", state.step,
             terminal_safe(found_->path.string()));
}

void TrainingPauses::tell_changes(const nlohmann::json& before) const {
  const nlohmann::json now = settings_;
  for (const auto& [key, value] : now.items()) {
    const nlohmann::json old = before.contains(key) ? before[key] : nlohmann::json();
    if (old != value)
      fmt::print(stderr, "note: {} was {} and is {}\n", terminal_safe(key),
                 terminal_safe(old.dump(), kLongestMessage),
                 terminal_safe(value.dump(), kLongestMessage));
  }
}

train::Pauses TrainingPauses::pauses(train::Trainer& trainer) {
  return {[this](int64_t next) {
            if (writer_) writer_->expect_no_failure();
            return due(next).any();
          },
          [this, &trainer](int64_t next) { pause(trainer, next, due(next)); }};
}

TrainingPauses::Work TrainingPauses::due(int64_t step) const {
  if (step <= first_step()) return {};
  return {!data_.validation().empty() && step % o_.validate_every == 0,
          sampling_.is_due && sampling_.is_due(step),
          writer_ && (step % o_.save_every == 0 || save_request_->is_set())};
}

void TrainingPauses::pause(train::Trainer& trainer, int64_t step, const Work& work) {
  if (work.validates && validated_step_ != step) {
    last_loss_ = trainer.evaluate(data_.validation());
    validated_step_ = step;
    say_(fmt::format("step {:4}  validation loss {:.4f}, perplexity {:.2f}", step, *last_loss_,
                     std::exp(*last_loss_)));
    if (validated_) validated_({step, *last_loss_});
  }
  if (work.samples && sampled_step_ != step) {
    sampling_.sample(trainer, step);
    sampled_step_ = step;
  }
  if (!work.saves || saved_step_ == step) return;
  train::TrainingState state;
  state.step = step;
  state.windows = data_.batches().place();
  state.tokens = first_tokens_ + (state.windows - first_window_) * sequence_;
  if (validated_step_ == step) state.validation_loss = last_loss_;
  if (guard_ != nullptr) state.guard = guard_->losses();
  state.loss_scale = trainer.loss_scale();
  state.settings = settings_;
  writer_->save(trainer, state, free_bytes_);
  saved_step_ = step;
  save_request_->clear();
}

void TrainingPauses::finish(train::Trainer& trainer, int64_t step) {
  pause(trainer, step,
        {!data_.validation().empty(), static_cast<bool>(sampling_.is_due), writer_.has_value()});
  if (writer_) writer_->wait();
}

}  // namespace ridge::apps
