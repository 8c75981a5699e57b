// SPDX-License-Identifier: Apache-2.0
// Dynamic loss scaling of training in fp16: its options, and its state in the store. Small
// gradients would vanish in fp16, so the backward pass begins with the loss times a scale, which
// the optimizer takes out again. A step whose gradients overflow is skipped; the op `loss_scale`
// has the rules.
#pragma once

#include <cstdint>

#include "runtime/store.h"

namespace ridge::train {

struct LossScaling {
  double initial = 65536;
  int64_t growth_interval = 2000;  // good steps after which the scale doubles
};

// Whether training could have come to the scale: a power of two in the op's range.
bool is_loss_scale(double scale);
// Throws usage Errors.
void check(const LossScaling& options);

// The names of the states, f32[] each.
inline constexpr const char* kLossScale = "loss_scale";
inline constexpr const char* kGoodSteps = "loss_scale.good_steps";
inline constexpr const char* kSkippedSteps = "loss_scale.skipped_steps";

struct LossScaleState {
  double scale = 0;
  int64_t good_steps = 0;     // since the scale changed
  int64_t skipped_steps = 0;  // in all
};

bool has_loss_scale(const runtime::Store& store);
LossScaleState read_loss_scale(const runtime::Store& store);
void write_loss_scale(runtime::Store& store, const LossScaleState& state);

}  // namespace ridge::train
