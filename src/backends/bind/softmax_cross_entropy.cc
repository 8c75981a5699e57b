// SPDX-License-Identifier: Apache-2.0
// Bindings of softmax_cross_entropy and its gradient, and of both of a vocabulary in parts.
#include "backends/bind/bindings.h"
#include "backends/row_layout.h"

namespace ridge::backends::bind {
namespace {

// The arguments that the forward and the backward kernel share: extents, and the first two inputs,
// logits and labels.
template <typename T, template <typename> typename Given>
Given<T> given_logits(const BindCall& call) {
  Given<T> given;
  given.tokens = call.inputs[0].type.shape[0];
  given.vocabulary = call.inputs[0].type.shape[1];
  given.logits = rows<const T>(call.inputs[0]);
  given.labels = call.inputs[1].as<const int32_t>();
  return given;
}

constexpr auto loss_call = []<typename T>(const BindCall& call) -> SoftmaxCrossEntropy<T> {
  auto s = given_logits<T, SoftmaxCrossEntropy>(call);
  s.loss = call.outputs[0].as<float>();
  s.lse = call.outputs[1].as<float>();
  s.count = call.outputs[2].as<int32_t>();
  s.workspace = reinterpret_cast<double*>(call.workspace);
  return s;
};

constexpr auto part_call = []<typename T>(const BindCall& call) -> SoftmaxCrossEntropy<T> {
  auto s = given_logits<T, SoftmaxCrossEntropy>(call);
  s.lse = call.outputs[0].as<float>();
  s.at_label = call.outputs[1].as<float>();
  s.workspace = reinterpret_cast<double*>(call.workspace);
  s.is_part = true;
  return s;
};

// The inputs are logits, labels, and the two outputs of all parts.
CrossEntropyOfParts of_parts_call(const BindCall& call) {
  const int64_t tokens = call.inputs[0].type.shape[0];
  return {tokens,
          call.inputs[2].type.shape[0] / tokens,
          call.inputs[1].as<const int32_t>(),
          call.inputs[2].as<const float>(),
          call.inputs[3].as<const float>(),
          call.outputs[0].as<float>(),
          call.outputs[1].as<float>(),
          call.outputs[2].as<int32_t>()};
}

// The inputs are logits, labels, lse, the count and the gradient of the loss.
constexpr auto backward_call =
    []<typename T>(const BindCall& call) -> SoftmaxCrossEntropyBackward<T> {
  auto s = given_logits<T, SoftmaxCrossEntropyBackward>(call);
  s.lse = call.inputs[2].as<const float>();
  s.count = call.inputs[3].as<const int32_t>();
  s.d_loss = call.inputs[4].as<const float>();
  s.d_logits = rows<T>(call.outputs[0]);
  s.is_part = call.attrs().flag("part");
  return s;
};

bool takes_gradient(const Call& call, int output, const Layout& layout) {
  return call.outputs[0].shape.rank() == 2 && output_lies_in_rows(call, output, layout);
}

}  // namespace

Kernel softmax_cross_entropy(TypedLaunchers<SoftmaxCrossEntropy> launchers,
                             int64_t (*workspace_bytes)(int64_t tokens)) {
  return {.op = "softmax_cross_entropy",
          .bind = bind_typed(std::move(launchers), loss_call),
          .takes_input = first_lies_in_rows,
          .workspace_bytes = [workspace_bytes](const Call& call) {
            return workspace_bytes(call.inputs[0].shape[0]);
          }};
}

Kernel cross_entropy_part(TypedLaunchers<SoftmaxCrossEntropy> launchers,
                          int64_t (*workspace_bytes)(int64_t tokens)) {
  return {.op = "cross_entropy_part",
          .bind = bind_typed(std::move(launchers), part_call),
          .takes_input = first_lies_in_rows,
          .workspace_bytes = [workspace_bytes](const Call& call) {
            return workspace_bytes(call.inputs[0].shape[0]);
          }};
}

Kernel cross_entropy_of_parts(Launcher<CrossEntropyOfParts> launcher) {
  return {.op = "cross_entropy_of_parts",
          .bind = bind_one(std::move(launcher), of_parts_call),
          .takes_input = first_lies_in_rows};
}

Kernel softmax_cross_entropy_backward(TypedLaunchers<SoftmaxCrossEntropyBackward> launchers) {
  return {.op = "softmax_cross_entropy_backward",
          .bind = bind_typed(std::move(launchers), backward_call),
          .takes_input = first_lies_in_rows,
          .takes_output = takes_gradient,
          .in_place = true};
}

}  // namespace ridge::backends::bind
