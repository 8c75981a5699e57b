// SPDX-License-Identifier: Apache-2.0
// Bindings of glu and glu_backward.
#include "backends/bind/bindings.h"
#include "backends/row_layout.h"

namespace ridge::backends::bind {
namespace {

// The arguments that the forward and the backward kernel share; gate and up are inputs `gate` and
// `gate` + 1.
template <typename T, template <typename> typename Given>
Given<T> given_gate(const BindCall& call, size_t gate) {
  const Shape& shape = call.inputs[gate].type.shape;
  Given<T> given;
  given.tokens = shape[0];
  given.width = shape[1];
  given.activation = glu_activation(call.attrs().text("activation"));
  given.gate = rows<const T>(call.inputs[gate]);
  given.up = rows<const T>(call.inputs[gate + 1]);
  return given;
}

constexpr auto glu_call = []<typename T>(const BindCall& call) -> Glu<T> {
  auto glu = given_gate<T, Glu>(call, 0);
  glu.y = rows<T>(call.outputs[0]);
  return glu;
};

constexpr auto backward_call = []<typename T>(const BindCall& call) -> GluBackward<T> {
  auto glu = given_gate<T, GluBackward>(call, 1);
  glu.dy = rows<const T>(call.inputs[0]);
  glu.d_gate = rows<T>(call.outputs[0]);
  glu.d_up = rows<T>(call.outputs[1]);
  return glu;
};

}  // namespace

Kernel glu(TypedLaunchers<Glu> launchers) {
  return row_kernel("glu", bind_typed(std::move(launchers), glu_call));
}

Kernel glu_backward(TypedLaunchers<GluBackward> launchers) {
  return row_kernel("glu_backward", bind_typed(std::move(launchers), backward_call));
}

}  // namespace ridge::backends::bind
