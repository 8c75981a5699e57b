// SPDX-License-Identifier: Apache-2.0
// Options of ridge train for the optimizer, the length of the training and the batch. Not a
// subcommand.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/command.h"
#include "train/spike_guard.h"
#include "train/step.h"

namespace ridge::apps {

struct ScheduleOptions {
  int64_t steps = 20;
  int64_t tokens = 0;        // instead of steps
  std::string time;          // beside or instead of steps
  int64_t batch_tokens = 0;  // instead of micro-batches
  train::OptimizerOptions optimizer;
  std::string schedule;  // empty: cosine with --lr-decay, otherwise constant
  std::string decayed;   // empty: by whether there are data
  std::string spike_guard = "off";
  double spike_deviations = 6;
  train::LossScaling loss_scaling;
};
void add_length_options(Command app, ScheduleOptions& options);
void add_optimizer_options(Command app, ScheduleOptions& options);
std::vector<Mode> unused_schedule_options(const ScheduleOptions& options);

// What the options mean for a step of this many tokens in a micro-batch.
struct TrainingSchedule {
  // Throws usage Errors.
  TrainingSchedule(const ScheduleOptions& options,
                   const Command& app,
                   const train::StepOptions& step,
                   bool has_data);

  train::OptimizerOptions optimizer;
  int64_t micro_batches = 1;
  int64_t steps = 0;
  double limit_ns = 0;  // of the wall time; 0: none
  std::optional<train::SpikeGuard> guard;
};

}  // namespace ridge::apps
