// SPDX-License-Identifier: Apache-2.0
// The double reference of views that repeat or reorder what they show: through the layout that
// `view` gives.
#pragma once

#include <optional>

#include "graph/op.h"

namespace ridge::ops {

// The output's elements in row-major order, read where `view` has them in the dense input.
inline void read_through(std::optional<Layout> (*view)(const Call&, const Layout&),
                         const Call& call,
                         const Tensor64& input,
                         Tensor64& output) {
  Layout from = *view(call, {0, dense_strides(call.inputs[0].shape)});
  const Shape& shape = call.outputs[0].shape;
  Strides to = dense_strides(shape);
  for (int64_t i = 0; i < shape.elements(); ++i) {
    int64_t at = from.offset;
    for (int axis = 0; axis < shape.rank(); ++axis)
      at += i / to[axis] % shape[axis] * from.strides[axis];
    output.data[static_cast<size_t>(i)] = input.data[static_cast<size_t>(at)];
  }
}

}  // namespace ridge::ops
