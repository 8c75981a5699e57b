// SPDX-License-Identifier: Apache-2.0
// Bindings of adamw and adamw_multi.
#include "ops/adamw.h"

#include <utility>

#include "backends/bind/bindings.h"

namespace ridge::backends::bind {
namespace {

AdamwStep step_of(const BindCall& call) {
  AdamwStep step;
  step.learning_rate = call.inputs[0].as<const float>();
  step.step = call.inputs[1].as<const float>();
  if (call.attrs().flag("clip")) step.gradient_scale = call.inputs[2].as<const float>();
  step.beta1 = call.attrs().real("beta1");
  step.beta2 = call.attrs().real("beta2");
  step.eps = call.attrs().real("eps");
  return step;
}

// `operands` belong to one tensor: the parameter, its gradient, m, v and possibly a 16-bit copy.
AdamwTensor tensor_of(const Operand* operands, bool has_copy, double weight_decay) {
  AdamwTensor tensor;
  tensor.elements = operands[0].type.shape.elements();
  tensor.parameter = operands[0].as<float>();
  if (operands[1].type.dtype == DType::kF32)
    tensor.gradient = operands[1].as<const float>();
  else if (operands[1].type.dtype == DType::kF16)
    tensor.f16_gradient = operands[1].as<const Float16>();
  else
    tensor.bf16_gradient = operands[1].as<const uint16_t>();
  tensor.m = operands[2].as<float>();
  tensor.v = operands[3].as<float>();
  if (has_copy && operands[4].type.dtype == DType::kF16)
    tensor.f16_parameter = operands[4].as<Float16>();
  else if (has_copy)
    tensor.bf16_parameter = operands[4].as<uint16_t>();
  tensor.weight_decay = weight_decay;
  return tensor;
}

AdamwUpdate update_call(const BindCall& call) {
  AdamwUpdate update{{}, step_of(call), call.is_background};
  for (const ops::AdamwTensor& t : ops::adamw_tensors(call.inputs.size(), call.attrs()))
    update.tensors.push_back(tensor_of(&call.inputs[static_cast<size_t>(t.input)], t.copy,
                                       call.attrs().real("weight_decay")));
  return update;
}

}  // namespace

Kernel adamw(Launcher<AdamwUpdate> launcher) {
  return {.op = "adamw", .bind = bind_one(std::move(launcher), update_call)};
}

Kernel adamw_multi(Launcher<AdamwUpdate> launcher) {
  return {.op = "adamw_multi", .bind = bind_one(std::move(launcher), update_call)};
}

int64_t adamw_tensor_count(const Call& call) {
  return static_cast<int64_t>(ops::adamw_tensors(call.inputs.size(), call.attrs).size());
}

}  // namespace ridge::backends::bind
