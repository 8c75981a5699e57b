// SPDX-License-Identifier: Apache-2.0
// The double reference of views that repeat or reorder what they show: through the layout that
// `view` gives.
#pragma once

#include <span>

#include "graph/op.h"

namespace ridge::ops {

// The output's elements in row-major order, read at `from`, the view of the dense input.
inline void read_through(const Layout& from,
                         const Shape& shape,
                         const Tensor64& input,
                         Tensor64& output) {
  Strides to = dense_strides(shape);
  for (int64_t i = 0; i < shape.elements(); ++i) {
    int64_t at = from.offset;
    for (int axis = 0; axis < shape.rank(); ++axis)
      at += i / to[axis] % shape[axis] * from.strides[axis];
    output.data[static_cast<size_t>(i)] = input.data[static_cast<size_t>(at)];
  }
}

}  // namespace ridge::ops
