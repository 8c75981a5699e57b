// SPDX-License-Identifier: Apache-2.0
// Declares the options. Not a subcommand.
#include "apps/training_options.h"

#include "apps/model_options.h"

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
  app.add_option("--text-format", o.form.format, "of texts: text, jsonl or auto (by name: .jsonl)");
  app.add_option("--field", o.form.field, "the key of the text in a line of JSON Lines");
  app.add_option("--pack", o.pack,
                 "what a sequence is: windows of the data as they come, or documents packed with "
                 "boundaries (attention and positions stay inside a document, the loss does not "
                 "cross one)");
  app.add_option("--seed", o.seed, "of the order of the data");
  app.add_option("--val-batches", o.validation_batches, "micro-batches of a validation, at most");
}

void add_observer_options(Command app, train::ObserverOptions& o) {
  app.under("Data").add_option("--val-every", o.validate_every,
                               "steps from one validation to the next");
  app = app.under("Checkpoints");
  app.add_option("--checkpoints", o.checkpoints,
                 "save all that training needs to go on to this folder");
  app.add_option("--save-every", o.save_every, "steps from one checkpoint to the next");
  app.add_option("--keep", o.policy.keep, "checkpoints that stay, the newest ones");
  app.add_flag("--keep-best", o.policy.keep_best,
               "the checkpoint with the lowest validation loss stays too");
  app.add_flag("--resume", o.resume, "go on after the newest checkpoint that is whole");
}

Mode without_checkpoints(const train::ObserverOptions& o) {
  return {o.checkpoints.empty(),
          "without --checkpoints",
          {"--save-every", "--keep", "--keep-best", "--resume"}};
}

void add_sample_options(Command app, measure::SampleOptions& o) {
  app = app.under("Samples");
  app.add_option(
      "--sample-every", o.every,
      "generate a text every so many steps and after the last one, with --data (0: never); "
      "--log-dir keeps them in samples.jsonl");
  app.add_option("--sample-prompt", o.prompt,
                 "what the texts continue (default: the tokenizer's begin, or the end of a line)");
  app.add_option("--sample-tokens", o.tokens, "tokens of a text");
  app.add_option("--sample-temperature", o.sampling.temperature, "softmax temperature (0: greedy)");
}

Mode without_samples(const measure::SampleOptions& o) {
  return {!o.are_on(),
          "without --sample-every",
          {"--sample-prompt", "--sample-tokens", "--sample-temperature"}};
}

void add_length_options(Command app, train::ScheduleOptions& o) {
  Option steps = app.add_option("--steps", o.steps, "measured steps (default: 20)");
  app.add_option("--tokens", o.tokens, "train on this many tokens instead").excludes(steps);
  app.add_option("--time", o.time, "end after this time, such as 90s, 10m or 2h");
  app.add_option("--batch-tokens", o.batch_tokens,
                 "tokens in a step; sets the number of micro-batches");
}

void add_optimizer_options(Command app, train::ScheduleOptions& options) {
  app = app.under("Optimizer (AdamW)");
  train::OptimizerOptions& o = options.optimizer;
  app.add_option("--lr", o.learning_rate, "learning rate");
  app.add_option("--weight-decay", o.weight_decay, "decoupled weight decay");
  app.add_option(
      "--decay", options.decayed,
      "what decays: all tensors, or matrices (not norms, biases and the embedding table; "
      "the default with --data)");
  add_clip_option(app, o.clip_norm);
  app.add_option("--lr-warmup", o.warmup_steps, "steps of linear warm-up from 0");
  app.add_option("--schedule", options.schedule,
                 "how the rate falls to --min-lr: constant (not at all), cosine, linear, or wsd "
                 "(constant, then linear)");
  app.add_option(
      "--lr-decay", o.decay_steps,
      "step at which the decay ends (0: the last one with --schedule, otherwise no decay)");
  app.add_option("--lr-decay-begin", o.decay_begin,
                 "step at which the decay begins (0: after the warm-up; of wsd after nine tenths)");
  app.add_option("--min-lr", o.minimum_rate, "learning rate at the end of the decay");
  app.add_option("--spike-guard", options.spike_guard,
                 "if a loss is far above those before: off, skip the update, or stop");
  app.add_option("--spike-deviations", options.spike_deviations,
                 "how far, in standard deviations of the last 100 losses");
  app.add_option(
      "--loss-scale", options.loss_scaling.initial,
      "first factor of the loss in fp16: a power of two, halved when gradients overflow");
  app.add_option("--loss-scale-interval", options.loss_scaling.growth_interval,
                 "steps without overflow after which the factor doubles");
}

std::vector<Mode> unused_schedule_options(const train::ScheduleOptions& o) {
  const bool decays =
      o.optimizer.decay_steps > 0 || (!o.schedule.empty() && o.schedule != "constant");
  return {{!decays, "without --lr-decay or --schedule", {"--min-lr", "--lr-decay-begin"}},
          {o.spike_guard == "off", "without --spike-guard", {"--spike-deviations"}},
          {o.batch_tokens.has_value(), "with --batch-tokens", {"--micro-batches"}}};
}

}  // namespace ridge::apps
