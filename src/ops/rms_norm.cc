// SPDX-License-Identifier: Apache-2.0
// rms_norm (composite): y = x * rstd * (offset + weight), rstd = 1/sqrt(mean(x^2) + eps) over the
// last axis of x[N,D]. `offset` is 1 for Gemma. Outputs y and rstd f32[N,1]; statistics are fp32.
// Also its fused gradient.
#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/op_from.h"
#include "ops/rms_norm.h"

namespace ridge::ops {

void expect_rms_norm(std::string_view op, const Type& x, const Type& weight, const Attrs& attrs) {
  expect_float(op, x, "x");
  expect_rank(op, x, 2, "x");
  expect_shape(op, weight, Shape{x.shape[1]}, "the weight");
  expect_dtype(op, weight, DType::kF32, "the weight");
  if (!(attrs.real("eps") >= 0))
    throw usage_error("[{}] expected eps >= 0, got {}", op, attrs.real("eps"));
}

// Per element: square, sum, two products. Per row: mean, eps and rsqrt.
Work rms_norm_work(const Shape& x) { return arithmetic(4 * x.elements() + 3 * x[0], x[0]); }
// Per element: d*w, x*rstd, their product and its sum, subtract and scale (3), d*x and its sum. Per
// row: one product.
Work rms_norm_backward_work(const Shape& x) { return arithmetic(9 * x.elements() + x[0]); }

double RmsNormRows::norm(const double* x, double* y) const {
  const double eps = attrs.real("eps"), offset = attrs.real("offset");
  size_t d = weight.data.size();
  double squares = 0;
  for (size_t i = 0; i < d; ++i) squares += x[i] * x[i];
  double rstd = 1 / std::sqrt(squares / static_cast<double>(d) + eps);
  for (size_t i = 0; i < d; ++i) y[i] = x[i] * rstd * (offset + weight.data[i]);
  return rstd;
}

namespace {

struct RmsNormOp {
  static Op declaration() {
    return {.name = "rms_norm",
            .category = OpCategory::kElementwise,
            .kind = OpKind::kComposite,
            .operands = {2},
            .attrs = {{"eps", 0.0}, {"offset", 0.0, false}, {"fused", false, false}},
            .formula = "4 FLOPs an element and 3 a row"};
  }

  static std::vector<Type> infer(const Call& call) {
    expect_rms_norm("rms_norm", call.inputs[0], call.inputs[1], call.attrs);
    return {call.inputs[0], f32({call.inputs[0].shape[0], 1})};
  }

  static Work work(const Call& call) { return rms_norm_work(call.inputs[0].shape); }
  static ModelWork model_work(const Call& call) {
    return {work(call), rms_norm_backward_work(call.inputs[0].shape)};
  }

  static std::vector<ValueId> gradient(const GradientCall& call) {
    const Node& node = call.node;
    return call.builder.call_all(
        "rms_norm_backward",
        {call.output_gradients[0], node.inputs[0], node.inputs[1], node.outputs[1]},
        {{"offset", node.attrs.real("offset")}});
  }

  // Statistics in fp32, the result in x's type, as in an eager framework.
  static std::vector<ValueId> expand(Builder& b, const Node& node) {
    const Type type = b.type(node.inputs[0]);
    ValueId x = cast(b, node.inputs[0], DType::kF32);
    ValueId mean = scale(b, reduce_sum(b, unary(b, "square", x), {1}),
                         1.0 / static_cast<double>(type.shape[1]));
    ValueId rstd = unary(b, "rsqrt", add_scalar(b, mean, node.attrs.real("eps")));
    ValueId normed = mul(b, x, broadcast(b, rstd, type.shape));
    double offset = node.attrs.real("offset");
    ValueId weight = offset == 0 ? node.inputs[1] : add_scalar(b, node.inputs[1], offset);
    return {cast(b, mul(b, normed, broadcast_rows(b, weight, type.shape)), type.dtype), rstd};
  }

  static void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
    RmsNormRows rows{*inputs[1], call.attrs};
    size_t row = 0;
    for_each_row(rows_of(call.inputs[0].shape), [&](size_t at) {
      outputs[1].data[row++] = rows.norm(&inputs[0]->data[at], &outputs[0].data[at]);
    });
  }

  static std::vector<Case> cases() {
    std::vector<Case> cases;
    for (double offset : {0.0, 1.0})
      for (const Shape& shape : {Shape{1, 1}, Shape{3, 17}, Shape{7, 64}, Shape{5, 131}})
        cases.push_back({fmt::format("{}offset{}", shape.str(), offset),
                         {{f32(shape)}, {f32({shape[1]}), {}, false}},
                         {{"eps", 1e-3}, {"offset", offset}}});
    return cases;
  }
};

struct RmsNormBackwardOp {
  static Op declaration() {
    return {
        .name = "rms_norm_backward",
        .category = OpCategory::kElementwise,
        .kind = OpKind::kFused,
        .operands = {4, 5},
        .attrs = {{"offset", 0.0, false}},
        .formula = "9 FLOPs an element and 1 a row; 1 more an element with a residual's gradient"};
  }

  // Inputs: dy, x, weight, rstd and, if fused with the residual add before the norm, the gradient
  // that bypasses the norm.
  static std::vector<Type> infer(const Call& call) {
    const Type& x = call.inputs[1];
    expect_rank("rms_norm_backward", x, 2, "x");
    expect_same("rms_norm_backward", call.inputs[0], x, "dy and x");
    expect_float("rms_norm_backward", x, "x");
    expect_type("rms_norm_backward", call.inputs[2], f32({x.shape[1]}), "the weight");
    expect_type("rms_norm_backward", call.inputs[3], f32({x.shape[0], 1}), "rstd");
    if (call.inputs.size() == 5)
      expect_same("rms_norm_backward", call.inputs[4], x, "the residual's gradient and x");
    return {x, call.inputs[2]};
  }

  static Work work(const Call& call) {
    Work work = rms_norm_backward_work(call.inputs[1].shape);
    return call.inputs.size() == 5 ? work + arithmetic(call.inputs[1].shape.elements()) : work;
  }

  static void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
    std::vector<double>&dx = outputs[0].data, &d_weight = outputs[1].data;
    std::fill(dx.begin(), dx.end(), 0.0);
    if (inputs.size() == 5) dx = inputs[4]->data;
    std::fill(d_weight.begin(), d_weight.end(), 0.0);
    size_t d = d_weight.size(), row = 0;
    for_each_row(rows_of(call.inputs[1].shape), [&](size_t at) {
      const double *dy = &inputs[0]->data[at], *x = &inputs[1]->data[at];
      double rstd = inputs[3]->data[row++], dot = 0;
      auto scaled = [&](size_t i) {
        return dy[i] * (call.attrs.real("offset") + inputs[2]->data[i]);
      };
      for (size_t i = 0; i < d; ++i) dot += scaled(i) * x[i] * rstd;
      for (size_t i = 0; i < d; ++i) {
        dx[at + i] += rstd * (scaled(i) - x[i] * rstd * dot / static_cast<double>(d));
        d_weight[i] += dy[i] * x[i] * rstd;
      }
    });
  }

  static std::vector<Case> cases() {
    CaseInput x{f32({7, 67})}, weight{f32({67}), {}, false},
        rstd{f32({7, 1}), {Fill::kPositive}, false};
    Attrs attrs{{"offset", 0.0}};
    return {{"plain", {x, x, weight, rstd}, attrs}, {"residual", {x, x, weight, rstd, x}, attrs}};
  }
};

}  // namespace

const Op& rms_norm_op() { return op_from<RmsNormOp>(); }

const Op& rms_norm_backward_op() { return op_from<RmsNormBackwardOp>(); }

}  // namespace ridge::ops
