// SPDX-License-Identifier: Apache-2.0
// Letters of an einsum that act as one axis of strided tensors. What a product makes of the axes is
// its library's business.
#pragma once

#include <cstdint>
#include <string>

#include "base/shape.h"
#include "graph/einsum.h"

namespace ridge {
inline namespace graph {

// A tensor's letters with its steps in elements; 0 for a letter that it lacks.
struct Lettered {
  const std::string& letters;
  const Strides& strides;
  int64_t step(char letter) const;
};

// Letters that step evenly in two tensors, as one axis. A single element has steps of 1: any do,
// and these keep a matrix dense.
struct JoinedAxis {
  int64_t extent = 1;
  int64_t first_step = 1, second_step = 1;
  std::string rest;  // the letters of extents other than 1 that did not join, outermost first
};

// The innermost chain is dense where any is; the longest leaves the fewest values over.
enum class Chain : uint8_t { kLongest, kInnermost };
JoinedAxis join_letters(const std::string& letters,
                        const EinsumExtents& extents,
                        const Lettered& first,
                        const Lettered& second,
                        Chain chain);

}  // namespace graph
}  // namespace ridge
