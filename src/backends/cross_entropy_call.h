// SPDX-License-Identifier: Apache-2.0
// The kernels' calls of the losses, filled from a node's operands: softmax_cross_entropy with its
// gradient, and log_softmax and nll_loss with theirs.
#pragma once

#include "backends/kernels/log_softmax.h"
#include "backends/kernels/nll_loss.h"
#include "backends/kernels/softmax_cross_entropy.h"
#include "backends/row_layout.h"

namespace ridge::backends {

template <typename T>
SoftmaxCrossEntropy<T> softmax_cross_entropy_call(const BindCall& call) {
  SoftmaxCrossEntropy<T> s;
  s.tokens = call.inputs[0].type.shape[0];
  s.vocabulary = call.inputs[0].type.shape[1];
  s.logits = rows<const T>(call.inputs[0]);
  s.labels = call.inputs[1].as<const int32_t>();
  s.loss = call.outputs[0].as<float>();
  s.lse = call.outputs[1].as<float>();
  s.count = call.outputs[2].as<int32_t>();
  s.workspace = reinterpret_cast<double*>(call.workspace);
  return s;
}

// Inputs logits, labels, lse, the count, the loss's gradient.
template <typename T>
SoftmaxCrossEntropyBackward<T> softmax_cross_entropy_backward_call(const BindCall& call) {
  SoftmaxCrossEntropyBackward<T> s;
  s.tokens = call.inputs[0].type.shape[0];
  s.vocabulary = call.inputs[0].type.shape[1];
  s.logits = rows<const T>(call.inputs[0]);
  s.labels = call.inputs[1].as<const int32_t>();
  s.lse = call.inputs[2].as<const float>();
  s.count = call.inputs[3].as<const int32_t>();
  s.d_loss = call.inputs[4].as<const float>();
  s.d_logits = rows<T>(call.outputs[0]);
  return s;
}

template <typename T>
LogSoftmax<T> log_softmax_call(const BindCall& call) {
  const Shape& shape = call.inputs[0].type.shape;
  return {shape[0], shape[1], rows<const T>(call.inputs[0]), rows<T>(call.outputs[0])};
}

template <typename T>
LogSoftmaxBackward<T> log_softmax_backward_call(const BindCall& call) {
  const Shape& shape = call.inputs[0].type.shape;
  return {shape[0], shape[1], rows<const T>(call.inputs[0]), rows<const T>(call.inputs[1]),
          rows<T>(call.outputs[0])};
}

template <typename T>
NllLoss<T> nll_loss_call(const BindCall& call) {
  const Shape& shape = call.inputs[0].type.shape;
  return {shape[0],
          shape[1],
          rows<const T>(call.inputs[0]),
          call.inputs[1].as<const int32_t>(),
          call.outputs[0].as<float>(),
          call.outputs[1].as<int32_t>()};
}

// Inputs log probabilities (for their shape), labels, the count, the loss's gradient.
template <typename T>
NllLossBackward<T> nll_loss_backward_call(const BindCall& call) {
  const Shape& shape = call.inputs[0].type.shape;
  return {shape[0],
          shape[1],
          call.inputs[1].as<const int32_t>(),
          call.inputs[3].as<const float>(),
          call.inputs[2].as<const int32_t>(),
          rows<T>(call.outputs[0])};
}

// takes_output of the gradient of logits [N,V].
inline bool logits_lie_in_rows(const Call& call, int output, const Layout& layout) {
  return call.outputs[0].shape.rank() == 2 && output_lies_in_rows(call, output, layout);
}

}  // namespace ridge::backends
