// SPDX-License-Identifier: Apache-2.0
// Computes mean and deviation anew for each loss, so that nothing but the losses is state.
#include "train/spike_guard.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace ridge::train {
namespace {

// Losses of a model that has learnt its data by heart hardly differ; a difference that is not
// visible is no spike.
constexpr double kLeastDeviation = 1e-3;

}  // namespace

bool SpikeGuard::is_spike(double loss) {
  deviations_ = 0;
  if (!std::isfinite(loss)) {
    deviations_ = std::numeric_limits<double>::infinity();
    return true;
  }
  if (losses_.size() >= kLeast) {
    const auto count = static_cast<double>(losses_.size());
    double mean = 0, squares = 0;
    for (const double each : losses_) mean += each / count;
    for (const double each : losses_) squares += (each - mean) * (each - mean);
    const double deviation = std::max(std::sqrt(squares / (count - 1)), kLeastDeviation);
    deviations_ = (loss - mean) / deviation;
    if (deviations_ > most_deviations_) return true;
  }
  losses_.push_back(loss);
  if (losses_.size() > kMost) losses_.pop_front();
  return false;
}

bool SpikeGuard::skips_update(double loss) {
  if (!is_spike(loss)) return false;
  if (stops_)
    throw runtime_error(
        "[spike-guard] the loss {} is {:.1f} standard deviations above those before", loss,
        deviations_);
  ++skipped_;
  return true;
}

}  // namespace ridge::train
