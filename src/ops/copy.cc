// SPDX-License-Identifier: Apache-2.0
// copy: the same elements in a separate dense buffer. The pass `legalize` inserts it where a kernel
// accepts no view.
#include <vector>

#include "ops/op_from.h"

namespace ridge::ops {
namespace {

struct CopyOp {
  static Op declaration() {
    return {.name = "copy",
            .category = OpCategory::kDataMovement,
            .formula = "no FLOPs; reads and writes each element once"};
  }

  static std::vector<Type> infer(const Call& call) { return {call.inputs[0]}; }

  static std::vector<ValueId> gradient(const GradientCall& call) {
    return {call.output_gradients[0]};
  }

  static void reference(const Call&, Inputs64 inputs, Outputs64 outputs) {
    outputs[0].data = inputs[0]->data;
  }

  static std::vector<Case> cases() {
    return {{"vector", {{f32({1023})}}, {}}, {"matrix", {{f32({13, 130})}}, {}}};
  }
};

}  // namespace

const Op& copy_op() { return op_from<CopyOp>(); }

}  // namespace ridge::ops
