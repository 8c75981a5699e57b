// SPDX-License-Identifier: Apache-2.0
// copy: the same elements in a dense buffer of their
// own; `legalize` puts it where a kernel takes no view.
#include <vector>

#include "ops/build.h"
#include "ops/infer.h"

namespace ridge::ops {
namespace {

std::vector<Type> infer(const Call& call) { return {call.inputs[0]}; }

std::vector<ValueId> gradient(const GradientCall& call) { return {call.output_gradients[0]}; }

void reference(const Call&, std::span<const Tensor64* const> inputs, std::span<Tensor64> outputs) {
  outputs[0].data = inputs[0]->data;
}

std::vector<Case> cases() {
  return {{"vector", {{f32({1023})}}, {}}, {"matrix", {{f32({13, 130})}}, {}}};
}

}  // namespace

const Op& copy_op() {
  static const Op op{.name = "copy",
                     .formula = "no FLOPs; reads and writes each element once",
                     .infer = infer,
                     .gradient = gradient,
                     .reference = reference,
                     .cases = cases};
  return op;
}

}  // namespace ridge::ops
