// SPDX-License-Identifier: Apache-2.0
// Weights for a configuration that has none: norms that multiply by 1, and otherwise normally
// distributed numbers with standard deviation 0.02. A model of them says nothing sensible; its
// times and its memory are those of a trained one.
#pragma once

#include <cstdint>
#include <span>

#include "models/parameter_list.h"

namespace ridge::models {

class RandomWeights {
 public:
  // `norm_offset` is what the model adds to a norm's weight.
  RandomWeights(const Parameter& parameter, double norm_offset, uint64_t seed);

  // Fills a row, whose width is out.size(). The numbers depend only on the seed, the parameter's
  // name and the element's index, so threads may draw rows in any order.
  void draw(int64_t row, std::span<float> out) const;

 private:
  uint32_t stream_;
  bool is_norm_;
  float norm_;
};

}  // namespace ridge::models
