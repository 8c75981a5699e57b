// SPDX-License-Identifier: Apache-2.0
// rms_norm (composite): y = x * rstd * (offset + weight), rstd = 1/sqrt(mean(x^2) + eps) over the
// last axis of x[N,D]. `offset` is 1 for Gemma. Outputs y and rstd f32[N,1]; statistics are fp32.
// Also its fused gradient.
#include <cmath>
#include <vector>

#include "ops/build.h"
#include "ops/infer.h"
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

// square, sum, two products an element; mean, eps and rsqrt a row.
Work rms_norm_work(const Shape& x) { return arithmetic(4 * x.elements() + 3 * x[0], x[0]); }
// d*w, x*rstd, their product and its sum, subtract
// and scale (3), d*x and its sum; one product a row.
Work rms_norm_backward_work(const Shape& x) { return arithmetic(9 * x.elements() + x[0]); }

double rms_norm_row(const double* x,
                    const double* weight,
                    int64_t d,
                    double eps,
                    double offset,
                    double* y) {
  double squares = 0;
  for (int64_t i = 0; i < d; ++i) squares += x[i] * x[i];
  double rstd = 1 / std::sqrt(squares / static_cast<double>(d) + eps);
  for (int64_t i = 0; i < d; ++i) y[i] = x[i] * rstd * (offset + weight[i]);
  return rstd;
}

void rms_norm_backward_row(const double* dy,
                           const double* x,
                           const double* weight,
                           double rstd,
                           int64_t d,
                           double offset,
                           double* dx,
                           double* d_weight) {
  double dot = 0;
  for (int64_t i = 0; i < d; ++i) dot += dy[i] * (offset + weight[i]) * x[i] * rstd;
  for (int64_t i = 0; i < d; ++i) {
    dx[i] += rstd * (dy[i] * (offset + weight[i]) - x[i] * rstd * dot / static_cast<double>(d));
    d_weight[i] += dy[i] * x[i] * rstd;
  }
}

namespace {

std::vector<Type> infer(const Call& call) {
  expect_rms_norm("rms_norm", call.inputs[0], call.inputs[1], call.attrs);
  return {call.inputs[0], f32({call.inputs[0].shape[0], 1})};
}

Work work(const Call& call) { return rms_norm_work(call.inputs[0].shape); }
ModelWork model_work(const Call& call) {
  return {work(call), rms_norm_backward_work(call.inputs[0].shape)};
}

std::vector<ValueId> gradient(const GradientCall& call) {
  const Node& node = call.node;
  return call.builder.call_all(
      "rms_norm_backward",
      {call.output_gradients[0], node.inputs[0], node.inputs[1], node.outputs[1]},
      {{"offset", node.attrs.real("offset")}});
}

// Statistics in fp32, the result in x's type: what an eager framework does.
std::vector<ValueId> expand(Builder& b, const Node& node) {
  const Type type = b.type(node.inputs[0]);
  ValueId x = cast(b, node.inputs[0], DType::kF32);
  ValueId mean =
      scale(b, reduce_sum(b, unary(b, "square", x), {1}), 1.0 / static_cast<double>(type.shape[1]));
  ValueId rstd = unary(b, "rsqrt", add_scalar(b, mean, node.attrs.real("eps")));
  ValueId normed = mul(b, x, broadcast(b, rstd, type.shape));
  double offset = node.attrs.real("offset");
  ValueId weight = offset == 0 ? node.inputs[1] : add_scalar(b, node.inputs[1], offset);
  return {cast(b, mul(b, normed, broadcast_rows(b, weight, type.shape)), type.dtype), rstd};
}

void reference(const Call& call,
               std::span<const Tensor64* const> inputs,
               std::span<Tensor64> outputs) {
  int64_t n = call.inputs[0].shape[0], d = call.inputs[0].shape[1];
  for (int64_t r = 0; r < n; ++r)
    outputs[1].data[static_cast<size_t>(r)] =
        rms_norm_row(&inputs[0]->data[static_cast<size_t>(r * d)], inputs[1]->data.data(), d,
                     call.attrs.real("eps"), call.attrs.real("offset"),
                     &outputs[0].data[static_cast<size_t>(r * d)]);
}

std::vector<Case> cases() {
  std::vector<Case> cases;
  for (double offset : {0.0, 1.0})
    for (const Shape& shape : {Shape{1, 1}, Shape{3, 17}, Shape{7, 64}, Shape{5, 131}})
      cases.push_back({fmt::format("{}offset{}", shape.str(), offset),
                       {{f32(shape)}, {f32({shape[1]}), {}, false}},
                       {{"eps", 1e-3}, {"offset", offset}}});
  return cases;
}

// Inputs: dy, x, weight, rstd and, fused with the residual add before it, the gradient that
// bypasses the norm.
std::vector<Type> infer_backward(const Call& call) {
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

Work work_backward(const Call& call) {
  Work work = rms_norm_backward_work(call.inputs[1].shape);
  return call.inputs.size() == 5 ? work + arithmetic(call.inputs[1].shape.elements()) : work;
}

void reference_backward(const Call& call,
                        std::span<const Tensor64* const> inputs,
                        std::span<Tensor64> outputs) {
  int64_t n = call.inputs[1].shape[0], d = call.inputs[1].shape[1];
  outputs[0].data.assign(static_cast<size_t>(n * d), 0);
  if (inputs.size() == 5) outputs[0].data = inputs[4]->data;
  outputs[1].data.assign(static_cast<size_t>(d), 0);
  for (int64_t r = 0; r < n; ++r) {
    size_t at = static_cast<size_t>(r * d);
    rms_norm_backward_row(&inputs[0]->data[at], &inputs[1]->data[at], inputs[2]->data.data(),
                          inputs[3]->data[static_cast<size_t>(r)], d, call.attrs.real("offset"),
                          &outputs[0].data[at], outputs[1].data.data());
  }
}

std::vector<Case> cases_backward() {
  CaseInput x{f32({7, 67})}, weight{f32({67}), {}, false},
      rstd{f32({7, 1}), {Fill::kPositive}, false};
  Attrs attrs{{"offset", 0.0}};
  return {{"plain", {x, x, weight, rstd}, attrs}, {"residual", {x, x, weight, rstd, x}, attrs}};
}

}  // namespace

const Op& rms_norm_op() {
  static const Op op{.name = "rms_norm",
                     .kind = OpKind::kComposite,
                     .min_inputs = 2,
                     .max_inputs = 2,
                     .attrs = {{"eps", 0.0}, {"offset", 0.0, false}, {"fused", false, false}},
                     .formula = "4 FLOPs an element and 3 a row",
                     .infer = infer,
                     .work = work,
                     .model_work = model_work,
                     .gradient = gradient,
                     .expand = expand,
                     .reference = reference,
                     .cases = cases};
  return op;
}

const Op& rms_norm_backward_op() {
  static const Op op{
      .name = "rms_norm_backward",
      .kind = OpKind::kFused,
      .min_inputs = 4,
      .max_inputs = 5,
      .attrs = {{"offset", 0.0, false}},
      .formula = "9 FLOPs an element and 1 a row; 1 more an element with a residual's gradient",
      .infer = infer_backward,
      .work = work_backward,
      .reference = reference_backward,
      .cases = cases_backward};
  return op;
}

}  // namespace ridge::ops
