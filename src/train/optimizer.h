// SPDX-License-Identifier: Apache-2.0
// AdamW's options and nodes, and the learning-rate schedule.
#pragma once

#include <cstdint>
#include <span>

#include "graph/builder.h"

namespace ridge::train {

struct OptimizerOptions {
  double learning_rate = 3e-4;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
  double clip_norm = 0;      // 0: no clipping
  int64_t warmup_steps = 0;  // linear from 0
  // 0: constant; otherwise, after warm-up, cosine decay to minimum_rate at this step.
  int64_t decay_steps = 0;
  double minimum_rate = 0;
};

// The learning rate of a step; the first step is 1.
double learning_rate(const OptimizerOptions& options, int64_t step);

// Appends the update of each parameter by its gradient, one node per tensor. The inputs are
// "learning_rate" and "step", the states "<name>.adamw_m" and "<name>.adamw_v".
void append_adamw(Builder& builder,
                  const OptimizerOptions& options,
                  std::span<const ValueId> parameters,
                  std::span<const ValueId> gradients);

}  // namespace ridge::train
