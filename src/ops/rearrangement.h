// SPDX-License-Identifier: Apache-2.0
// The notation of einops' rearrange: "b (h e) t -> b t h e" splits, permutes and merges axes.
// Builds nothing: ops/rearrange.cc does.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/shape.h"

namespace ridge::ops {

// Three views in a row. Axes that stay side by side move as one, so that few are needed.
struct Rearrangement {
  Shape split;
  std::vector<int64_t> permutation;  // it permutes the axes of `split`
  Shape merged;
};

// `sizes` are those of split axes, "h=8,e=64"; one of each group may be left out. Axes are words, 1
// or `...` (once on each side, not in a group), and the same on both sides. Throws usage Errors.
Rearrangement parse_rearrangement(std::string_view pattern,
                                  std::string_view sizes,
                                  const Shape& shape);

}  // namespace ridge::ops
