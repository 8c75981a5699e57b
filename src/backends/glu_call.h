// SPDX-License-Identifier: Apache-2.0
// The kernels' calls of glu and glu_backward, filled from a node's operands.
#pragma once

#include "backends/kernels/glu.h"
#include "backends/row_layout.h"

namespace ridge::backends {

inline GluActivation glu_activation(const Attrs& attrs) {
  return attrs.text("activation") == "silu" ? GluActivation::kSilu : GluActivation::kGeluTanh;
}

template <typename T>
Glu<T> glu_call(const BindCall& call) {
  const Shape& shape = call.inputs[0].type.shape;
  return {shape[0],
          shape[1],
          glu_activation(call.attrs()),
          rows<const T>(call.inputs[0]),
          rows<const T>(call.inputs[1]),
          rows<T>(call.outputs[0])};
}

template <typename T>
GluBackward<T> glu_backward_call(const BindCall& call) {
  const Shape& shape = call.inputs[0].type.shape;
  return {shape[0],
          shape[1],
          glu_activation(call.attrs()),
          rows<const T>(call.inputs[0]),
          rows<const T>(call.inputs[1]),
          rows<const T>(call.inputs[2]),
          rows<T>(call.outputs[0]),
          rows<T>(call.outputs[1])};
}

}  // namespace ridge::backends
