// SPDX-License-Identifier: Apache-2.0
// Checks the options and computes steps from tokens.
#include "train/training_schedule.h"

#include <charconv>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "base/shape.h"
#include "train/training_choice.h"

namespace ridge::train {
namespace {

constexpr int64_t kUsualSteps = 20;
constexpr int64_t kMostSteps = 1'000'000'000;  // at a millisecond each, eleven days
// A step with a larger rate or decay only overflows.
constexpr double kMostRate = 1000;
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

int64_t steps_of(const ScheduleOptions& o, int64_t step_tokens) {
  if (o.tokens) {
    if (*o.tokens < 1) throw usage_error("[tokens] expected at least 1, got {}", *o.tokens);
    const int64_t steps = (*o.tokens - 1) / step_tokens + 1;
    if (steps > kMostSteps)
      throw usage_error("[tokens] expected at most {} steps of {} tokens, got {}", kMostSteps,
                        step_tokens, steps);
    return steps;
  }
  return o.steps.value_or(o.time ? kMostSteps : kUsualSteps);
}

int64_t micro_batches_of(const ScheduleOptions& o, const StepOptions& s) {
  if (!o.batch_tokens) return s.micro_batches;
  const int64_t tokens = *o.batch_tokens;
  const int64_t micro_tokens = checked_product(s.batch_size, s.sequence, "batch x sequence");
  const int64_t count = tokens / micro_tokens;
  if (tokens < 1 || tokens % micro_tokens != 0 || count > kMostMicroBatches)
    throw usage_error(
        "[batch-tokens] expected 1 to {} times the {} tokens of a micro-batch ({} sequences of {}), "
        "got {}",
        kMostMicroBatches, micro_tokens, s.batch_size, s.sequence, tokens);
  return count;
}

// Where the rate falls, and how.
void set_decay(const ScheduleOptions& o, int64_t steps, OptimizerOptions& optimizer) {
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
  optimizer.decay_shape = name == "cosine" ? DecayShape::kCosine : DecayShape::kLinear;
  constexpr int64_t kStableTenths = 9;
  if (name == "wsd" && optimizer.decay_begin == 0)
    optimizer.decay_begin = optimizer.decay_steps * kStableTenths / 10;
}

void check(const OptimizerOptions& o) {
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

void expect_clip(double clip_norm) {
  if (!std::isfinite(clip_norm) || clip_norm < 0)
    throw usage_error("[clip] expected a number >= 0, got {}", clip_norm);
}

void expect_steps(int64_t steps, int64_t least, int64_t warmup) {
  if (steps < least || steps > kMostSteps)
    throw usage_error("[steps] expected {} to {}{}, got {}", least, kMostSteps,
                      least > 1 ? " (one plain, one instrumented)" : "", steps);
  if (warmup < 0 || warmup > kMostSteps)
    throw usage_error("[warmup] expected 0 to {}, got {}", kMostSteps, warmup);
}

TrainingSchedule::TrainingSchedule(const ScheduleOptions& o, const StepOptions& step, bool has_data)
    : optimizer(o.optimizer) {
  micro_batches = micro_batches_of(o, step);
  const int64_t micro_tokens = checked_product(step.batch_size, step.sequence, "batch x sequence");
  steps = steps_of(o, checked_product(micro_tokens, micro_batches, "tokens in a step"));
  if (o.time) limit_ns = parse_time_ns(*o.time);
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

}  // namespace ridge::train
