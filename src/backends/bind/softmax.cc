// SPDX-License-Identifier: Apache-2.0
// Bindings of softmax and log_softmax, and of their gradients.
#include "backends/bind/bindings.h"
#include "backends/row_layout.h"
#include "ops/infer.h"

namespace ridge::backends::bind {
namespace {

constexpr auto softmax_call = []<typename T>(const BindCall& call) -> Softmax<T> {
  const auto [count, width] = ops::rows_of(call.inputs[0].type.shape);
  return {count, width, rows<const T>(call.inputs[0]), rows<T>(call.outputs[0])};
};

constexpr auto backward_call = []<typename T>(const BindCall& call) -> SoftmaxBackward<T> {
  const auto [count, width] = ops::rows_of(call.inputs[0].type.shape);
  return {count, width, rows<const T>(call.inputs[0]), rows<const T>(call.inputs[1]),
          rows<T>(call.outputs[0])};
};

}  // namespace

Kernel softmax(TypedLaunchers<Softmax> launchers) {
  return row_kernel("softmax", bind_typed(std::move(launchers), softmax_call));
}

Kernel softmax_backward(TypedLaunchers<SoftmaxBackward> launchers) {
  return row_kernel("softmax_backward", bind_typed(std::move(launchers), backward_call));
}

Kernel log_softmax(TypedLaunchers<Softmax> launchers) {
  return row_kernel("log_softmax", bind_typed(std::move(launchers), softmax_call));
}

Kernel log_softmax_backward(TypedLaunchers<SoftmaxBackward> launchers) {
  return row_kernel("log_softmax_backward", bind_typed(std::move(launchers), backward_call));
}

}  // namespace ridge::backends::bind
