// SPDX-License-Identifier: Apache-2.0
// reduce_sum: the sum over some axes, which remain with extent 1. Summed in fp32 in a fixed order.
#include <algorithm>
#include <vector>

#include "ops/op_from.h"

namespace ridge::ops {
namespace {

struct ReduceSumOp {
  static Op declaration() {
    return {.name = "reduce_sum",
            .category = OpCategory::kElementwise,
            .attrs = {{"axes", std::vector<int64_t>{}}},
            .formula = "1 FLOP an element read"};
  }

  static std::vector<Type> infer(const Call& call) {
    expect_float("reduce_sum", call.inputs[0], "the operand");
    Type type = call.inputs[0];
    for (int64_t axis : call.attrs.integers("axes"))
      type.shape = type.shape.with(expect_axis("reduce_sum", type.shape, axis), 1);
    return {type};
  }

  static Work work(const Call& call) { return arithmetic(call.inputs[0].shape.elements()); }

  static std::vector<ValueId> gradient(const GradientCall& call) {
    return {
        broadcast(call.builder, call.output_gradients[0], call.builder.shape(call.node.inputs[0]))};
  }

  static void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
    const Shape& from = call.inputs[0].shape;
    const Shape& to = call.outputs[0].shape;
    Strides in_strides = dense_strides(from), out_strides = dense_strides(to);
    std::fill(outputs[0].data.begin(), outputs[0].data.end(), 0.0);
    for (int64_t i = 0; i < from.elements(); ++i) {
      int64_t at = 0;
      for (int axis = 0; axis < from.rank(); ++axis)
        if (to[axis] != 1) at += i / in_strides[axis] % from[axis] * out_strides[axis];
      outputs[0].data[static_cast<size_t>(at)] += inputs[0]->data[static_cast<size_t>(i)];
    }
  }

  static std::vector<Case> cases() {
    auto over = [](std::vector<int64_t> axes) { return Attrs{{"axes", std::move(axes)}}; };
    return {{"rows", {{f32({7, 129})}}, over({1})},
            {"columns", {{f32({67, 33})}}, over({0})},
            {"all", {{f32({5, 13})}}, over({0, 1})},
            {"outer_and_inner", {{f32({3, 5, 7})}}, over({0, 2})},
            {"one", {{f32({1, 1})}}, over({1})}};
  }
};

}  // namespace

const Op& reduce_sum_op() { return op_from<ReduceSumOp>(); }

}  // namespace ridge::ops
