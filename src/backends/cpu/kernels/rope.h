// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding and its table on CPUs; backends/kernels/rope.h defines them.
#pragma once

#include <vector>

#include "backends/kernels/rope.h"

namespace ridge::backends::cpu {

// Throws InternalError for an odd head size.
template <typename T>
void rope(const Rope<T>& call);

// Fills a table. The frequencies of the pairs are computed once.
class RopeAngles {
 public:
  explicit RopeAngles(const RopeTable& call);
  void fill() const;

 private:
  RopeTable call_;
  std::vector<double> steps_;  // radians from one position to the next, padded to whole vectors
};

}  // namespace ridge::backends::cpu
