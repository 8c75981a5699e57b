// SPDX-License-Identifier: Apache-2.0
// Bindings of log_softmax and its gradient.
#include "backends/bind/bindings.h"
#include "backends/bind/row_kernel.h"

namespace ridge::backends::bind {
namespace {

template <typename T>
LogSoftmax<T> log_softmax_call(const BindCall& call) {
  const Shape& shape = call.inputs[0].type.shape;
  return {shape[0], shape[1], rows<const T>(call.inputs[0]), rows<T>(call.outputs[0])};
}

template <typename T>
LogSoftmaxBackward<T> backward_call(const BindCall& call) {
  const Shape& shape = call.inputs[0].type.shape;
  return {shape[0], shape[1], rows<const T>(call.inputs[0]), rows<const T>(call.inputs[1]),
          rows<T>(call.outputs[0])};
}

}  // namespace

Kernel log_softmax(TypedLaunchers<LogSoftmax> launchers) {
  return row_kernel("log_softmax",
                    bind_typed(std::move(launchers), log_softmax_call<float>,
                               log_softmax_call<uint16_t>, log_softmax_call<Float16>));
}

Kernel log_softmax_backward(TypedLaunchers<LogSoftmaxBackward> launchers) {
  return row_kernel("log_softmax_backward",
                    bind_typed(std::move(launchers), backward_call<float>, backward_call<uint16_t>,
                               backward_call<Float16>));
}

}  // namespace ridge::backends::bind
