// SPDX-License-Identifier: Apache-2.0
// Letters of an einsum that act as one axis of strided tensors. How a product uses the axes is up
// to its library.
#pragma once

#include <cstdint>
#include <string>

#include "base/shape.h"
#include "graph/einsum.h"

namespace ridge::inline graph {

// The letters of a tensor with its strides in elements; a letter that it lacks has step 0.
struct Lettered {
  const std::string& letters;
  const Strides& strides;
  int64_t step(char letter) const;
};

// Letters that form one axis with a constant step in each of two tensors. An axis of extent 1 has
// steps of 1: any would be correct, and these keep a matrix dense.
struct JoinedAxis {
  int64_t extent = 1;
  int64_t first_step = 1, second_step = 1;
  std::string rest;  // the letters of extents other than 1 that did not join, outermost first
};

// The innermost chain is dense if any chain is; the longest leaves the fewest elements to other
// letters.
enum class Chain : uint8_t { kLongest, kInnermost };
JoinedAxis join_letters(const std::string& letters,
                        const EinsumExtents& extents,
                        const Lettered& first,
                        const Lettered& second,
                        Chain chain);

}  // namespace ridge::inline graph
