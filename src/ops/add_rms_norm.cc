// SPDX-License-Identifier: Apache-2.0
// add_rms_norm, made by the pass fuse_rms_norm: sum = x + residual and y = rms_norm(sum) in one
// pass over the row. Outputs sum, y and rstd f32[N,1]. The gradient is rms_norm_backward with the
// gradient of the sum itself added.
#include <vector>

#include "ops/op_from.h"
#include "ops/rms_norm.h"

namespace ridge::ops {
namespace {

struct AddRmsNormOp {
  static Op declaration() {
    return {.name = "add_rms_norm",
            .category = OpCategory::kElementwise,
            .kind = OpKind::kFused,
            .operands = {3},
            .attrs = {{"eps", 0.0}, {"offset", 0.0, false}},
            .formula = "5 FLOPs an element and 3 a row"};
  }

  static std::vector<Type> infer(const Call& call) {
    expect_same("add_rms_norm", call.inputs[0], call.inputs[1], "x and the residual");
    expect_rms_norm("add_rms_norm", call.inputs[0], call.inputs[2], call.attrs);
    return {call.inputs[0], call.inputs[0], f32({call.inputs[0].shape[0], 1})};
  }

  static Work work(const Call& call) {
    return rms_norm_work(call.inputs[0].shape) + arithmetic(call.inputs[0].shape.elements());
  }

  // The gradient of the sum flows to both operands unchanged; the gradient of the norm is added to
  // it.
  static std::vector<ValueId> gradient(const GradientCall& call) {
    const Node& node = call.node;
    ValueId d_sum = call.output_gradients[0], dy = call.output_gradients[1];
    if (dy == kNoValue) return {d_sum, d_sum, kNoValue};
    std::vector<ValueId> inputs{dy, node.outputs[0], node.inputs[2], node.outputs[2]};
    if (d_sum != kNoValue) inputs.push_back(d_sum);
    std::vector<ValueId> made =
        call.builder.call_all("rms_norm_backward", inputs, {{"offset", node.attrs.real("offset")}});
    return {made[0], made[0], made[1]};
  }

  static void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
    for (size_t i = 0; i < outputs[0].data.size(); ++i)
      outputs[0].data[i] = inputs[0]->data[i] + inputs[1]->data[i];
    RmsNormRows rows{*inputs[2], call.attrs};
    size_t row = 0;
    for_each_row(rows_of(call.inputs[0].shape), [&](size_t at) {
      outputs[2].data[row++] = rows.norm(&outputs[0].data[at], &outputs[1].data[at]);
    });
  }

  static std::vector<Case> cases() {
    std::vector<Case> cases;
    for (const Shape& shape : {Shape{1, 1}, Shape{3, 17}, Shape{5, 131}})
      cases.push_back({shape.str(),
                       {{f32(shape)}, {f32(shape)}, {f32({shape[1]}), {}, false}},
                       {{"eps", 1e-3}}});
    return cases;
  }
};

}  // namespace

const Op& add_rms_norm_op() { return op_from<AddRmsNormOp>(); }

}  // namespace ridge::ops
