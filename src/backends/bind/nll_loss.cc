// SPDX-License-Identifier: Apache-2.0
// Bindings of nll_loss and its gradient.
#include "backends/bind/bindings.h"
#include "backends/row_layout.h"

namespace ridge::backends::bind {
namespace {

template <typename T>
NllLoss<T> loss_call(const BindCall& call) {
  const Shape& shape = call.inputs[0].type.shape;
  return {shape[0],
          shape[1],
          rows<const T>(call.inputs[0]),
          call.inputs[1].as<const int32_t>(),
          call.outputs[0].as<float>(),
          call.outputs[1].as<int32_t>()};
}

// The inputs are the log probabilities (used for their shape), labels, the count and the gradient
// of the loss.
template <typename T>
NllLossBackward<T> backward_call(const BindCall& call) {
  const Shape& shape = call.inputs[0].type.shape;
  return {shape[0],
          shape[1],
          call.inputs[1].as<const int32_t>(),
          call.inputs[3].as<const float>(),
          call.inputs[2].as<const int32_t>(),
          rows<T>(call.outputs[0])};
}

}  // namespace

Kernel nll_loss(TypedLaunchers<NllLoss> launchers) {
  return {.op = "nll_loss",
          .bind = bind_typed(std::move(launchers), loss_call<float>, loss_call<uint16_t>,
                             loss_call<Float16>),
          .takes_input = first_lies_in_rows};
}

Kernel nll_loss_backward(TypedLaunchers<NllLossBackward> launchers) {
  return {.op = "nll_loss_backward",
          .bind = bind_typed(std::move(launchers), backward_call<float>, backward_call<uint16_t>,
                             backward_call<Float16>, first_output_type)};
}

}  // namespace ridge::backends::bind
