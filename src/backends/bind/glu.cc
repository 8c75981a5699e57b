// SPDX-License-Identifier: Apache-2.0
// Bindings of glu and glu_backward.
#include "backends/bind/bindings.h"
#include "backends/bind/row_kernel.h"

namespace ridge::backends::bind {
namespace {

GluActivation activation(const Attrs& attrs) {
  return attrs.text("activation") == "silu" ? GluActivation::kSilu : GluActivation::kGeluTanh;
}

template <typename T>
Glu<T> glu_call(const BindCall& call) {
  const Shape& shape = call.inputs[0].type.shape;
  return {shape[0],
          shape[1],
          activation(call.attrs()),
          rows<const T>(call.inputs[0]),
          rows<const T>(call.inputs[1]),
          rows<T>(call.outputs[0])};
}

template <typename T>
GluBackward<T> backward_call(const BindCall& call) {
  const Shape& shape = call.inputs[0].type.shape;
  return {shape[0],
          shape[1],
          activation(call.attrs()),
          rows<const T>(call.inputs[0]),
          rows<const T>(call.inputs[1]),
          rows<const T>(call.inputs[2]),
          rows<T>(call.outputs[0]),
          rows<T>(call.outputs[1])};
}

}  // namespace

Kernel glu(TypedLaunchers<Glu> launchers) {
  return row_kernel("glu", bind_typed(std::move(launchers), glu_call<float>, glu_call<uint16_t>));
}

Kernel glu_backward(TypedLaunchers<GluBackward> launchers) {
  return row_kernel("glu_backward", bind_typed(std::move(launchers), backward_call<float>,
                                               backward_call<uint16_t>));
}

}  // namespace ridge::backends::bind
