// SPDX-License-Identifier: Apache-2.0
// Checks options; reads and writes the three states.
#include "train/loss_scale.h"

#include <cmath>

#include "base/error.h"
#include "ops/loss_scale.h"

namespace ridge::train {

// A power of two loses no bit of a gradient.
bool is_loss_scale(double scale) {
  int exponent = 0;
  return scale >= ops::kLeastLossScale && scale <= ops::kMostLossScale &&
         std::frexp(scale, &exponent) == 0.5;
}

void check(const LossScaling& o) {
  if (!is_loss_scale(o.initial))
    throw usage_error("[loss-scale] expected a power of two from {} to {}, got {}",
                      ops::kLeastLossScale, ops::kMostLossScale, o.initial);
  constexpr int64_t kMostInterval = int64_t{1} << 24;  // the steps are counted in fp32
  if (o.growth_interval < 1 || o.growth_interval > kMostInterval)
    throw usage_error("[loss-scale-interval] expected 1 to {}, got {}", kMostInterval,
                      o.growth_interval);
}

bool has_loss_scale(const runtime::Store& store) { return store.has(kLossScale); }

LossScaleState read_loss_scale(const runtime::Store& store) {
  return {static_cast<double>(store.read_floats(kLossScale)[0]),
          std::llround(store.read_floats(kGoodSteps)[0]),
          std::llround(store.read_floats(kSkippedSteps)[0])};
}

void write_loss_scale(runtime::Store& store, const LossScaleState& state) {
  store.write_scalar(kLossScale, static_cast<float>(state.scale));
  store.write_scalar(kGoodSteps, static_cast<float>(state.good_steps));
  store.write_scalar(kSkippedSteps, static_cast<float>(state.skipped_steps));
}

}  // namespace ridge::train
