// SPDX-License-Identifier: Apache-2.0
// Recognizes a loss that is far above those before it, and leaves the update of its step out or
// ends the training.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "train/observer.h"

namespace ridge::train {

class SpikeGuard final : public Observer {
 public:
  // A loss is a spike if it is more than `most_deviations` standard deviations above the mean of
  // the last losses that were none, once there are kLeast of them; or if it is not finite.
  explicit SpikeGuard(double most_deviations, bool stops = false)
      : most_deviations_(most_deviations), stops_(stops) {}

  // Whether the loss is a spike. Throws a run-time Error for a spike if the guard stops at them.
  bool skips_update(double loss) override;
  int64_t skipped() const { return skipped_; }  // updates that were left out

  // Judges the loss and, if it is no spike, remembers it.
  bool is_spike(double loss);
  // The last judgement: by how many standard deviations the loss was above the mean.
  double deviations() const { return deviations_; }

  std::vector<double> losses() const { return {losses_.begin(), losses_.end()}; }
  void restore(const std::vector<double>& losses) { losses_.assign(losses.begin(), losses.end()); }

  static constexpr size_t kLeast = 20, kMost = 100;

 private:
  double most_deviations_;
  bool stops_;
  int64_t skipped_ = 0;
  double deviations_ = 0;
  std::deque<double> losses_;
};

}  // namespace ridge::train
