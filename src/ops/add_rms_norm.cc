// SPDX-License-Identifier: Apache-2.0
// add_rms_norm (put there by fuse_rms_norm): sum = x + residual, y = rms_norm(sum), in one pass
// over the row. Outputs sum, y and rstd f32[N,1]. The gradient is rms_norm_backward with the sum's
// own gradient added.
#include <vector>

#include "ops/build.h"
#include "ops/infer.h"
#include "ops/rms_norm.h"

namespace ridge::ops {
namespace {

std::vector<Type> infer(const Call& call) {
  expect_same("add_rms_norm", call.inputs[0], call.inputs[1], "x and the residual");
  expect_rms_norm("add_rms_norm", call.inputs[0], call.inputs[2], call.attrs);
  return {call.inputs[0], call.inputs[0], f32({call.inputs[0].shape[0], 1})};
}

Work work(const Call& call) {
  return rms_norm_work(call.inputs[0].shape) + arithmetic(call.inputs[0].shape.elements());
}

// The sum's gradient flows to both operands unchanged, with the norm's added to it.
std::vector<ValueId> gradient(const GradientCall& call) {
  const Node& node = call.node;
  ValueId d_sum = call.output_gradients[0], dy = call.output_gradients[1];
  if (dy == kNoValue) return {d_sum, d_sum, kNoValue};
  std::vector<ValueId> inputs{dy, node.outputs[0], node.inputs[2], node.outputs[2]};
  if (d_sum != kNoValue) inputs.push_back(d_sum);
  std::vector<ValueId> made =
      call.builder.call_all("rms_norm_backward", inputs, {{"offset", node.attrs.real("offset")}});
  return {made[0], made[0], made[1]};
}

void reference(const Call& call,
               std::span<const Tensor64* const> inputs,
               std::span<Tensor64> outputs) {
  int64_t n = call.inputs[0].shape[0], d = call.inputs[0].shape[1];
  for (size_t i = 0; i < outputs[0].data.size(); ++i)
    outputs[0].data[i] = inputs[0]->data[i] + inputs[1]->data[i];
  for (int64_t r = 0; r < n; ++r) {
    size_t at = static_cast<size_t>(r * d);
    outputs[2].data[static_cast<size_t>(r)] =
        rms_norm_row(&outputs[0].data[at], inputs[2]->data.data(), d, call.attrs.real("eps"),
                     call.attrs.real("offset"), &outputs[1].data[at]);
  }
}

std::vector<Case> cases() {
  std::vector<Case> cases;
  for (const Shape& shape : {Shape{1, 1}, Shape{3, 17}, Shape{5, 131}})
    cases.push_back(
        {shape.str(), {{f32(shape)}, {f32(shape)}, {f32({shape[1]}), {}, false}}, {{"eps", 1e-3}}});
  return cases;
}

}  // namespace

const Op& add_rms_norm_op() {
  static const Op op{.name = "add_rms_norm",
                     .kind = OpKind::kFused,
                     .min_inputs = 3,
                     .max_inputs = 3,
                     .attrs = {{"eps", 0.0}, {"offset", 0.0, false}},
                     .formula = "5 FLOPs an element and 3 a row",
                     .infer = infer,
                     .work = work,
                     .gradient = gradient,
                     .reference = reference,
                     .cases = cases};
  return op;
}

}  // namespace ridge::ops
