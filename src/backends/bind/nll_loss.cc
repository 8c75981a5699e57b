// SPDX-License-Identifier: Apache-2.0
// Bindings of nll_loss and its gradient.
#include "backends/bind/bindings.h"
#include "backends/row_layout.h"

namespace ridge::backends::bind {
namespace {

constexpr auto loss_call = []<typename T>(const BindCall& call) -> NllLoss<T> {
  const Shape& shape = call.inputs[0].type.shape;
  return {shape[0],
          shape[1],
          rows<const T>(call.inputs[0]),
          call.inputs[1].as<const int32_t>(),
          call.outputs[0].as<float>(),
          call.outputs[1].as<int32_t>()};
};

// The inputs are the log probabilities (used for their shape), labels, the count and the gradient
// of the loss.
constexpr auto backward_call = []<typename T>(const BindCall& call) -> NllLossBackward<T> {
  const Shape& shape = call.inputs[0].type.shape;
  return {shape[0],
          shape[1],
          call.inputs[1].as<const int32_t>(),
          call.inputs[3].as<const float>(),
          call.inputs[2].as<const int32_t>(),
          rows<T>(call.outputs[0])};
};

}  // namespace

Kernel nll_loss(TypedLaunchers<NllLoss> launchers) {
  return {.op = "nll_loss",
          .bind = bind_typed(std::move(launchers), loss_call),
          .takes_input = first_lies_in_rows};
}

Kernel nll_loss_backward(TypedLaunchers<NllLossBackward> launchers) {
  return {.op = "nll_loss_backward",
          .bind = bind_typed(std::move(launchers), backward_call, first_output_type)};
}

}  // namespace ridge::backends::bind
