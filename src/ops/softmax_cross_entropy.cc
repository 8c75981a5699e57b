// SPDX-License-Identifier: Apache-2.0
// softmax_cross_entropy (composite): logits [N,V] and labels i32[N] (-1 = not counted) -> the mean
// loss f32[], lse f32[N,1] and the number of counted rows i32[]. Kept whole it never writes
// probabilities: the gradient recomputes them from lse.
#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/build.h"
#include "ops/infer.h"

namespace ridge::ops {
namespace {

void expect_logits(std::string_view op, const Type& logits, const Type& labels) {
  expect_float(op, logits, "logits");
  expect_rank(op, logits, 2, "logits");
  expect_dtype(op, labels, DType::kI32, "labels");
  expect_shape(op, labels, Shape{logits.shape[0]}, "labels");
}

std::vector<Type> infer(const Call& call) {
  expect_logits("softmax_cross_entropy", call.inputs[0], call.inputs[1]);
  return {f32({}), f32({call.inputs[0].shape[0], 1}), i32({})};
}

// max, subtract, exp, sum an element; log, add, subtract a row.
Work work(const Call& call) {
  const Shape& x = call.inputs[0].shape;
  return arithmetic(4 * x.elements() + 3 * x[0], x.elements() + x[0]);
}

// subtract lse, exp, scale.
Work backward_work(const Shape& x) { return arithmetic(3 * x.elements(), x.elements()); }
ModelWork model_work(const Call& call) { return {work(call), backward_work(call.inputs[0].shape)}; }

std::vector<ValueId> gradient(const GradientCall& call) {
  const Node& n = call.node;
  return {
      call.builder.call("softmax_cross_entropy_backward", {n.inputs[0], n.inputs[1], n.outputs[1],
                                                           n.outputs[2], call.output_gradients[0]}),
      kNoValue};
}

// log_softmax and nll_loss in fp32, as an eager framework runs it. lse is not available there: it
// has no reader.
std::vector<ValueId> expand(Builder& b, const Node& node) {
  ValueId log_probabilities = b.call("log_softmax", {cast(b, node.inputs[0], DType::kF32)});
  std::vector<ValueId> made = b.call_all("nll_loss", {log_probabilities, node.inputs[1]});
  return {made[0], kNoValue, made[1]};
}

double row_lse(const double* x, int64_t v) {
  double top = *std::max_element(x, x + v), sum = 0;
  for (int64_t i = 0; i < v; ++i) sum += std::exp(x[i] - top);
  return top + std::log(sum);
}

void reference(const Call& call,
               std::span<const Tensor64* const> inputs,
               std::span<Tensor64> outputs) {
  int64_t n = call.inputs[0].shape[0], v = call.inputs[0].shape[1];
  double sum = 0, count = 0;
  for (int64_t r = 0; r < n; ++r) {
    const double* x = &inputs[0]->data[static_cast<size_t>(r * v)];
    double lse = row_lse(x, v);
    outputs[1].data[static_cast<size_t>(r)] = lse;
    double label = inputs[1]->data[static_cast<size_t>(r)];
    if (label < 0) continue;
    sum += lse - x[static_cast<int64_t>(label)];
    count += 1;
  }
  outputs[0].data[0] = count > 0 ? sum / count : 0;
  outputs[2].data[0] = count;
}

CaseInput labels(int64_t n, int64_t v) {
  return {i32({n}), {Fill::kIds, static_cast<double>(v), false}};
}

std::vector<Case> cases() {
  std::vector<Case> cases;
  for (const Shape& shape : {Shape{1, 1}, Shape{5, 17}, Shape{7, 130}})
    cases.push_back({shape.str(), {{f32(shape)}, labels(shape[0], shape[1])}, {}});
  return cases;
}

// Inputs logits, labels, lse, the count, the loss's gradient.
std::vector<Type> infer_backward(const Call& call) {
  expect_logits("softmax_cross_entropy_backward", call.inputs[0], call.inputs[1]);
  expect_type("softmax_cross_entropy_backward", call.inputs[2], f32({call.inputs[0].shape[0], 1}),
              "lse");
  expect_type("softmax_cross_entropy_backward", call.inputs[3], i32({}), "the count");
  expect_type("softmax_cross_entropy_backward", call.inputs[4], f32({}), "the loss's gradient");
  return {call.inputs[0]};
}

Work work_backward(const Call& call) { return backward_work(call.inputs[0].shape); }

void reference_backward(const Call& call,
                        std::span<const Tensor64* const> inputs,
                        std::span<Tensor64> outputs) {
  int64_t n = call.inputs[0].shape[0], v = call.inputs[0].shape[1];
  double count = inputs[3]->data[0];
  for (int64_t r = 0; r < n; ++r) {
    double label = inputs[1]->data[static_cast<size_t>(r)];
    for (int64_t i = 0; i < v; ++i) {
      size_t at = static_cast<size_t>(r * v + i);
      double p = std::exp(inputs[0]->data[at] - inputs[2]->data[static_cast<size_t>(r)]);
      double hit = static_cast<double>(i) == label ? 1 : 0;
      outputs[0].data[at] = label < 0 ? 0 : inputs[4]->data[0] / count * (p - hit);
    }
  }
}

std::vector<Case> cases_backward() {
  return {{"rows",
           {{f32({7, 67})},
            labels(7, 67),
            {f32({7, 1}), {Fill::kConstant, 5}, false},
            {i32({}), {Fill::kConstant, 7, false}},
            {f32({}), {}, false}},
           {}}};
}

}  // namespace

const Op& softmax_cross_entropy_op() {
  static const Op op{.name = "softmax_cross_entropy",
                     .kind = OpKind::kComposite,
                     .min_inputs = 2,
                     .max_inputs = 2,
                     .attrs = {{"fused", false, false}},
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

const Op& softmax_cross_entropy_backward_op() {
  static const Op op{.name = "softmax_cross_entropy_backward",
                     .kind = OpKind::kFused,
                     .min_inputs = 5,
                     .max_inputs = 5,
                     .formula = "3 FLOPs an element",
                     .infer = infer_backward,
                     .work = work_backward,
                     .reference = reference_backward,
                     .cases = cases_backward};
  return op;
}

}  // namespace ridge::ops
