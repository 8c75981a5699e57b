// SPDX-License-Identifier: Apache-2.0
// How long a training is, and how its optimizer works on the way.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "train/spike_guard.h"
#include "train/step.h"

namespace ridge::train {

struct ScheduleOptions {
  std::optional<int64_t> steps = {};         // empty: 20
  std::optional<int64_t> tokens = {};        // instead of steps
  std::optional<std::string> time = {};      // instead of steps, or as a limit of both
  std::optional<int64_t> batch_tokens = {};  // instead of micro-batches
  OptimizerOptions optimizer = {};
  std::string schedule = {};  // empty: cosine with --lr-decay, otherwise constant
  std::string decayed = {};   // empty: by whether there are data
  std::string spike_guard = "off";
  double spike_deviations = 6;
  LossScaling loss_scaling = {};
};

// The schedule for a step of this many tokens in a micro-batch.
struct TrainingSchedule {
  // Throws usage Errors.
  TrainingSchedule(const ScheduleOptions& options, const StepOptions& step, bool has_data);

  OptimizerOptions optimizer;
  int64_t micro_batches = 1;
  int64_t steps = 0;
  double limit_ns = 0;  // the wall time; 0: no limit
  std::optional<SpikeGuard> guard;
};

// Throws a usage Error unless it is a number >= 0.
void expect_clip(double clip_norm);
// Throws usage Errors for fewer than `least` measured steps, and for step counts that are so large
// that they must be typing errors.
void expect_steps(int64_t steps, int64_t least, int64_t warmup);

}  // namespace ridge::train
