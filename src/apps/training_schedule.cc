// SPDX-License-Identifier: Apache-2.0
// Checks the options and computes steps from tokens. Not a subcommand.
#include "apps/training_schedule.h"

#include <charconv>

#include "apps/model_options.h"
#include "base/error.h"
#include "base/printable.h"
#include "base/shape.h"

namespace ridge::apps {
namespace {

// A step with a larger rate or decay only overflows.
constexpr double kMostRate = 1000;
constexpr int64_t kMostSteps = 1'000'000'000;
constexpr int64_t kMostMicroBatches = 65536;
constexpr double kMostSeconds = 1e9;

void expect_rate(const char* option, double value) {
  if (!(value >= 0 && value <= kMostRate))
    throw usage_error("[{}] expected a number from 0 to {}, got {}", option, kMostRate, value);
}

void expect_step(const char* option, int64_t step) {
  if (step < 0) throw usage_error("[{}] expected a step >= 0, got {}", option, step);
}

// "90s", "10m", "2h" or "1.5d" in nanoseconds.
double parse_time_ns(const std::string& text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  const std::string unit(stop, end);
  double seconds = 0;
  for (const auto& [name, length] :
       {std::pair{"s", 1.0}, {"m", 60.0}, {"h", 3600.0}, {"d", 86400.0}})
    if (unit == name) seconds = number * length;
  if (error != std::errc() || !(seconds > 0 && seconds <= kMostSeconds))
    throw usage_error("[time] expected a time such as 90s, 10m or 2h, got {}", printable(text));
  return seconds * 1e9;
}

int64_t steps_of(const ScheduleOptions& o, const Command& app, int64_t step_tokens) {
  if (app.given("--tokens")) {
    if (o.tokens < 1) throw usage_error("[tokens] expected at least 1, got {}", o.tokens);
    const int64_t steps = (o.tokens - 1) / step_tokens + 1;
    if (steps > kMostSteps)
      throw usage_error("[tokens] expected at most {} steps of {} tokens, got {}", kMostSteps,
                        step_tokens, steps);
    return steps;
  }
  return app.given("--time") && !app.given("--steps") ? kMostSteps : o.steps;
}

int64_t micro_batches_of(const ScheduleOptions& o,
                         const Command& app,
                         const train::StepOptions& s) {
  if (!app.given("--batch-tokens")) return s.micro_batches;
  const int64_t micro_tokens = checked_product(s.batch_size, s.sequence, "batch x sequence");
  const int64_t count = o.batch_tokens / micro_tokens;
  if (o.batch_tokens < 1 || o.batch_tokens % micro_tokens != 0 || count > kMostMicroBatches)
    throw usage_error(
        "[batch-tokens] expected 1 to {} times the {} tokens of a micro-batch ({} sequences of {}), "
        "got {}",
        kMostMicroBatches, micro_tokens, s.batch_size, s.sequence, o.batch_tokens);
  return count;
}

// Where the rate falls, and how.
void set_decay(const ScheduleOptions& o, int64_t steps, train::OptimizerOptions& optimizer) {
  const std::string& name = o.schedule;
  if (!name.empty() && name != "constant" && name != "cosine" && name != "linear" && name != "wsd")
    throw usage_error("[schedule] expected constant, cosine, linear or wsd, got {}",
                      printable(name));
  if (name.empty()) return;
  if (name == "constant") {
    if (optimizer.decay_steps > 0)
      throw usage_error("[schedule] expected no --lr-decay with a constant rate, got {}",
                        optimizer.decay_steps);
    return;
  }
  if (optimizer.decay_steps == 0 && steps == kMostSteps)
    throw usage_error(
        "[lr-decay] expected the step at which the decay ends, as --time has no last "
        "step");
  if (optimizer.decay_steps == 0) optimizer.decay_steps = steps;
  optimizer.decay_shape =
      name == "cosine" ? train::DecayShape::kCosine : train::DecayShape::kLinear;
  constexpr int64_t kStableTenths = 9;
  if (name == "wsd" && optimizer.decay_begin == 0)
    optimizer.decay_begin = optimizer.decay_steps * kStableTenths / 10;
}

void check(const train::OptimizerOptions& o) {
  expect_rate("lr", o.learning_rate);
  expect_rate("min-lr", o.minimum_rate);
  expect_rate("weight-decay", o.weight_decay);
  expect_step("lr-warmup", o.warmup_steps);
  expect_step("lr-decay", o.decay_steps);
  expect_step("lr-decay-begin", o.decay_begin);
  expect_clip(o.clip_norm);
  if (o.minimum_rate > o.learning_rate)
    throw usage_error("[min-lr] expected at most --lr, which is {}, got {}", o.learning_rate,
                      o.minimum_rate);
  if (o.decay_steps > 0 && o.decay_steps <= o.warmup_steps)
    throw usage_error("[lr-decay] expected a step after --lr-warmup, which is {}, got {}",
                      o.warmup_steps, o.decay_steps);
  if (o.decay_steps > 0 && o.decay_steps <= o.decay_begin)
    throw usage_error("[lr-decay] expected a step after --lr-decay-begin, which is {}, got {}",
                      o.decay_begin, o.decay_steps);
}

}  // namespace

void add_length_options(Command app, ScheduleOptions& o) {
  Option steps = app.add_option("--steps", o.steps, "measured steps").show_default();
  app.add_option("--tokens", o.tokens, "train on this many tokens instead").excludes(steps);
  app.add_option("--time", o.time, "end after this time, such as 90s, 10m or 2h");
  app.add_option("--batch-tokens", o.batch_tokens,
                 "tokens in a step; sets the number of micro-batches");
}

void add_optimizer_options(Command app, ScheduleOptions& options) {
  app = app.under("Optimizer (AdamW)");
  train::OptimizerOptions& o = options.optimizer;
  app.add_option("--lr", o.learning_rate, "learning rate").show_default();
  app.add_option("--weight-decay", o.weight_decay, "decoupled weight decay").show_default();
  app.add_option(
      "--decay", options.decayed,
      "what decays: all tensors, or matrices (not norms, biases and the embedding table; "
      "the default with --data)");
  add_clip_option(app, o.clip_norm);
  app.add_option("--lr-warmup", o.warmup_steps, "steps of linear warm-up from 0").show_default();
  app.add_option("--schedule", options.schedule,
                 "how the rate falls to --min-lr: constant (not at all), cosine, linear, or wsd "
                 "(constant, then linear)");
  app.add_option(
         "--lr-decay", o.decay_steps,
         "step at which the decay ends (0: the last one with --schedule, otherwise no decay)")
      .show_default();
  app.add_option("--lr-decay-begin", o.decay_begin,
                 "step at which the decay begins (0: after the warm-up; of wsd after nine tenths)")
      .show_default();
  app.add_option("--min-lr", o.minimum_rate, "learning rate at the end of the decay")
      .show_default();
  app.add_option("--spike-guard", options.spike_guard,
                 "if a loss is far above those before: off, skip the update, or stop")
      .show_default();
  app.add_option("--spike-deviations", options.spike_deviations,
                 "how far, in standard deviations of the last 100 losses")
      .show_default();
  app.add_option("--loss-scale", options.loss_scaling.initial,
                 "first factor of the loss in fp16: a power of two, halved when gradients overflow")
      .show_default();
  app.add_option("--loss-scale-interval", options.loss_scaling.growth_interval,
                 "steps without overflow after which the factor doubles")
      .show_default();
}

std::vector<Mode> unused_schedule_options(const ScheduleOptions& o) {
  const bool decays =
      o.optimizer.decay_steps > 0 || (!o.schedule.empty() && o.schedule != "constant");
  return {{!decays, "without --lr-decay or --schedule", {"--min-lr", "--lr-decay-begin"}},
          {o.spike_guard == "off", "without --spike-guard", {"--spike-deviations"}},
          {o.batch_tokens != 0, "with --batch-tokens", {"--micro-batches"}}};
}

TrainingSchedule::TrainingSchedule(const ScheduleOptions& o,
                                   const Command& app,
                                   const train::StepOptions& step,
                                   bool has_data)
    : optimizer(o.optimizer) {
  micro_batches = micro_batches_of(o, app, step);
  const int64_t micro_tokens = checked_product(step.batch_size, step.sequence, "batch x sequence");
  steps = steps_of(o, app, checked_product(micro_tokens, micro_batches, "tokens in a step"));
  if (app.given("--time")) limit_ns = parse_time_ns(o.time);
  set_decay(o, steps, optimizer);
  check(optimizer);
  if (!o.decayed.empty() && o.decayed != "all" && o.decayed != "matrices")
    throw usage_error("[decay] expected all or matrices, got {}", printable(o.decayed));
  optimizer.decays_all = o.decayed.empty() ? !has_data : o.decayed == "all";
  if (o.spike_guard != "off" && o.spike_guard != "skip" && o.spike_guard != "stop")
    throw usage_error("[spike-guard] expected off, skip or stop, got {}", printable(o.spike_guard));
  if (!(o.spike_deviations > 0 && o.spike_deviations <= kMostRate))
    throw usage_error("[spike-deviations] expected a number up to {}, got {}", kMostRate,
                      o.spike_deviations);
  if (o.spike_guard != "off") guard.emplace(o.spike_deviations, o.spike_guard == "stop");
}

}  // namespace ridge::apps
