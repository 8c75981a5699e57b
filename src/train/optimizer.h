// SPDX-License-Identifier: Apache-2.0
// AdamW's options and nodes, and the learning-rate schedule.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/builder.h"
#include "train/loss_scale.h"

namespace ridge::train {

enum class DecayShape : uint8_t { kCosine, kLinear };

struct OptimizerOptions {
  double learning_rate = 3e-4;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
  // Whether norms, biases and the embedding table decay too, as in the published runs.
  bool decays_all = true;
  double clip_norm = 0;      // 0: no clipping
  int64_t warmup_steps = 0;  // linear from 0
  // 0: constant; otherwise the rate falls to minimum_rate at this step, from the end of the warm-up
  // or, if that is later, from decay_begin.
  int64_t decay_steps = 0;
  int64_t decay_begin = 0;
  DecayShape decay_shape = DecayShape::kCosine;
  double minimum_rate = 0;
};

// The learning rate of a step; the first step is 1.
double learning_rate(const OptimizerOptions& options, int64_t step);

// The endings of the states' names.
inline constexpr const char* kFirstMoment = ".adamw_m";
inline constexpr const char* kSecondMoment = ".adamw_v";

// Whether weight decay applies to a parameter if not all decay.
bool is_decayed(std::string_view parameter, const Type& type);

struct AppendedUpdate {
  ValueId squared_norm = kNoValue;  // the gradients' before clipping; none without clipping
  // With loss scaling: the scale of the next step, and how many steps were skipped so far.
  ValueId scale = kNoValue, skipped_steps = kNoValue;
};

// The ranks that share a model, or a stage of one, and how many ranks of all stages have the same
// gradient of each parameter: the norm counts it once.
struct SharedGradients {
  int64_t ranks = 1;
  std::vector<int64_t> copies;  // one for each parameter, if there are several ranks or stages
  int64_t stages = 1;
  std::set<std::string> tied = {};  // parameters that the first and the last stage have
};

// Appends the update of each parameter by its gradient, one node per tensor. The inputs are
// "learning_rate" and "step", the states "<name>.adamw_m" and "<name>.adamw_v". With `scaling`, the
// gradients are those of the scaled loss, and a skipped step is no step of AdamW.
AppendedUpdate append_adamw(Builder& builder,
                            const OptimizerOptions& options,
                            std::span<const ValueId> parameters,
                            std::span<const ValueId> gradients,
                            const LossScaling* scaling = nullptr,
                            const SharedGradients& shared = {});

}  // namespace ridge::train
