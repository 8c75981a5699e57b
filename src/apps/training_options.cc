// SPDX-License-Identifier: Apache-2.0
// Declares the options, and says what becomes of checkpoints. Not a subcommand.
#include "apps/training_options.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "base/error.h"
#include "base/printable.h"

namespace ridge::apps {

void add_training_data_options(Command app, train::TrainingDataOptions& o) {
  app = app.under("Data");
  app.add_option("--data", o.data,
                 "train on this: a folder of ridge data tokenize, a .bin file of token ids, or a "
                 "text; several times, as PATH=WEIGHT, for a mixture")
      .one_value();
  app.add_option("--val-data", o.validation, "the same for validation");
  app.add_option("--tokenizer", o.tokenizer,
                 "of texts: a .gguf file, a tokenizer.json, or a folder with either");
  app.add_option("--text-format", o.form.format, "of texts: text, jsonl or auto (by name: .jsonl)")
      .show_default();
  app.add_option("--field", o.form.field, "the key of the text in a line of JSON Lines")
      .show_default();
  app.add_option("--pack", o.pack,
                 "what a sequence is: windows of the data as they come, or documents packed with "
                 "boundaries (attention and positions stay inside a document, the loss does not "
                 "cross one)")
      .show_default();
  app.add_option("--seed", o.seed, "of the order of the data").show_default();
  app.add_option("--val-batches", o.validation_batches, "micro-batches of a validation, at most")
      .show_default();
}

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

void add_sample_options(Command app, measure::SampleOptions& o) {
  app = app.under("Samples");
  app.add_option(
         "--sample-every", o.every,
         "generate a text every so many steps and after the last one, with --data (0: never); "
         "--log-dir keeps them in samples.jsonl")
      .show_default();
  app.add_option("--sample-prompt", o.prompt,
                 "what the texts continue (default: the tokenizer's begin, or the end of a line)");
  app.add_option("--sample-tokens", o.tokens, "tokens of a text").show_default();
  app.add_option("--sample-temperature", o.sampling.temperature, "softmax temperature (0: greedy)")
      .show_default();
}

Mode without_samples(const measure::SampleOptions& o) {
  return {!o.are_on(),
          "without --sample-every",
          {"--sample-prompt", "--sample-tokens", "--sample-temperature"}};
}

void find_checkpoint(const PauseOptions& o,
                     const models::ModelConfig& config,
                     train::Resumption& resumption) {
  if (o.checkpoints.empty()) return;
  std::vector<train::RefusedCheckpoint> refused;
  resumption.found = train::newest_checkpoint(o.checkpoints, refused);
  if (!o.resume && (resumption.found || !refused.empty()))
    throw usage_error("[checkpoints] {} has checkpoints; --resume goes on after the newest",
                      printable(o.checkpoints));
  for (const train::RefusedCheckpoint& each : refused)
    fmt::print(stderr, "Refused {}: {}\n", terminal_safe(each.path.string()),
               terminal_safe(each.reason, kLongestMessage));
  if (!resumption.found && !refused.empty())
    throw file_error("[checkpoints] expected a whole checkpoint in {}, found none of {}",
                     o.checkpoints, refused.size());
  if (!resumption.found && o.resume)
    fmt::print(stderr, "There is no checkpoint in {} yet; training begins at step 0.\n",
               terminal_safe(o.checkpoints));
  if (!resumption.found) return;
  train::expect_same_model(*resumption.found, config);
  train::expect_same_tuning(resumption);
}

namespace {

train::DataPlace resumed_place(const train::Resumption& resumption,
                               train::Trainer& trainer,
                               train::TrainingData& data,
                               train::SpikeGuard* guard) {
  const train::DataPlace place = train::resume(resumption, trainer, data.batches(), guard);
  for (const train::SettingChange& each : train::changed_settings(resumption))
    fmt::print(stderr, "note: {} was {} and is {}\n", terminal_safe(each.name),
               terminal_safe(each.before, kLongestMessage),
               terminal_safe(each.now, kLongestMessage));
  if (resumption.found)
    fmt::print(stderr, "Resuming after step {} from {}.\n", resumption.first_step(),
               terminal_safe(resumption.found->path.string()));
  return place;
}

}  // namespace

Checkpoints::Checkpoints(const PauseOptions& o,
                         const train::Resumption& resumption,
                         train::Trainer& trainer,
                         train::TrainingData& data,
                         train::SpikeGuard* guard,
                         const train::Validation* validation,
                         int64_t free_bytes)
    : writer(o.checkpoints, o.policy, data.tokenizer()),
      saver(trainer,
            {data.batches(), resumed_place(resumption, trainer, data, guard), guard, validation,
             resumption.settings},
            writer,
            {o.save_every,
             resumption.found ? std::optional(resumption.first_step()) : std::nullopt,
             {[this] { return request.is_set(); }, [this] { request.clear(); }},
             free_bytes}) {}

}  // namespace ridge::apps
