// SPDX-License-Identifier: Apache-2.0
// AdamW's scalars and tensors among a node's operands.
#include "backends/adamw_call.h"

#include "ops/adamw.h"

namespace ridge::backends {

AdamwStep adamw_step(const BindCall& call) {
  AdamwStep step;
  step.learning_rate = call.inputs[0].as<const float>();
  step.step = call.inputs[1].as<const float>();
  if (call.attrs().flag("clip")) step.gradient_scale = call.inputs[2].as<const float>();
  step.beta1 = call.attrs().real("beta1");
  step.beta2 = call.attrs().real("beta2");
  step.eps = call.attrs().real("eps");
  return step;
}

std::vector<AdamwTensor> adamw_tensors(const BindCall& call) {
  std::vector<AdamwTensor> tensors;
  for (const ops::AdamwTensor& t : ops::adamw_tensors(call.inputs.size(), call.attrs())) {
    const Operand* operands = &call.inputs[static_cast<size_t>(t.input)];
    AdamwTensor tensor;
    tensor.elements = operands[0].type.shape.elements();
    tensor.parameter = operands[0].as<float>();
    if (operands[1].type.dtype == DType::kF32)
      tensor.gradient = operands[1].as<const float>();
    else
      tensor.bf16_gradient = operands[1].as<const uint16_t>();
    tensor.m = operands[2].as<float>();
    tensor.v = operands[3].as<float>();
    tensor.bf16_parameter = t.copy ? operands[4].as<uint16_t>() : nullptr;
    tensor.weight_decay = call.attrs().real("weight_decay");
    tensors.push_back(tensor);
  }
  return tensors;
}

}  // namespace ridge::backends
