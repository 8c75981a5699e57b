// SPDX-License-Identifier: Apache-2.0
// Bindings of softmax and its gradient.
#include "backends/bind/bindings.h"
#include "backends/bind/row_kernel.h"
#include "ops/infer.h"

namespace ridge::backends::bind {
namespace {

// The arguments that the forward and the backward kernel share: the extents.
template <typename Given>
Given given_rows(const BindCall& call) {
  ops::RowExtents extents = ops::rows_of(call.inputs[0].type.shape);
  Given given;
  given.rows = extents.count;
  given.columns = extents.width;
  return given;
}

template <typename T>
Softmax<T> softmax_call(const BindCall& call) {
  auto s = given_rows<Softmax<T>>(call);
  s.x = rows<const T>(call.inputs[0]);
  s.y = rows<T>(call.outputs[0]);
  return s;
}

template <typename T>
SoftmaxBackward<T> backward_call(const BindCall& call) {
  auto s = given_rows<SoftmaxBackward<T>>(call);
  s.y = rows<const T>(call.inputs[0]);
  s.dy = rows<const T>(call.inputs[1]);
  s.dx = rows<T>(call.outputs[0]);
  return s;
}

}  // namespace

Kernel softmax(TypedLaunchers<Softmax> launchers) {
  return row_kernel("softmax", bind_typed(std::move(launchers), softmax_call<float>,
                                          softmax_call<uint16_t>, softmax_call<Float16>));
}

Kernel softmax_backward(TypedLaunchers<SoftmaxBackward> launchers) {
  return row_kernel("softmax_backward",
                    bind_typed(std::move(launchers), backward_call<float>, backward_call<uint16_t>,
                               backward_call<Float16>));
}

}  // namespace ridge::backends::bind
