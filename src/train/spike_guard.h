// SPDX-License-Identifier: Apache-2.0
// Recognizes a loss that is far above those before it.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

namespace ridge::train {

class SpikeGuard {
 public:
  // A loss is a spike if it is more than `most_deviations` standard deviations above the mean of the
  // last losses that were none, once there are kLeast of them; or if it is not finite.
  explicit SpikeGuard(double most_deviations) : most_deviations_(most_deviations) {}

  // Judges the loss and, if it is no spike, remembers it.
  bool is_spike(double loss);
  // The last judgement: by how many standard deviations the loss was above the mean.
  double deviations() const { return deviations_; }

  std::vector<double> losses() const { return {losses_.begin(), losses_.end()}; }
  void restore(const std::vector<double>& losses) { losses_.assign(losses.begin(), losses.end()); }

  static constexpr size_t kLeast = 20, kMost = 100;

 private:
  double most_deviations_;
  double deviations_ = 0;
  std::deque<double> losses_;
};

}  // namespace ridge::train
