// SPDX-License-Identifier: Apache-2.0
// The double-precision reference of views that repeat or reorder elements, by the layout that
// `view` returns.
#pragma once

#include <optional>

#include "graph/op.h"

namespace ridge::ops {

// The output's elements in row-major order, read from their places in the dense input by `view`.
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
