// SPDX-License-Identifier: Apache-2.0
// The kernels' calls of softmax, its gradient, and causal_mask, filled from a node's operands.
#pragma once

#include <algorithm>

#include "backends/kernels/causal_mask.h"
#include "backends/kernels/softmax.h"
#include "backends/row_layout.h"
#include "ops/infer.h"

namespace ridge::backends {

template <typename T>
Softmax<T> softmax_call(const BindCall& call) {
  ops::Rows extents = ops::rows_of(call.inputs[0].type.shape);
  Softmax<T> s;
  s.rows = extents.count;
  s.columns = extents.width;
  s.x = rows<const T>(call.inputs[0]);
  s.y = rows<T>(call.outputs[0]);
  return s;
}

template <typename T>
SoftmaxBackward<T> softmax_backward_call(const BindCall& call) {
  ops::Rows extents = ops::rows_of(call.inputs[0].type.shape);
  SoftmaxBackward<T> s;
  s.rows = extents.count;
  s.columns = extents.width;
  s.y = rows<const T>(call.inputs[0]);
  s.dy = rows<const T>(call.inputs[1]);
  s.dx = rows<T>(call.outputs[0]);
  return s;
}

template <typename T>
CausalMask<T> causal_mask_call(const BindCall& call) {
  int64_t t = call.inputs[0].type.shape.back();
  return {call.inputs[0].type.shape.elements() / std::max<int64_t>(t, 1),
          t,
          call.attrs().integer("window"),
          static_cast<float>(call.attrs().real("value")),
          rows<const T>(call.inputs[0]),
          rows<T>(call.outputs[0])};
}

}  // namespace ridge::backends
