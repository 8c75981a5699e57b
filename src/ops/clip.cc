// SPDX-License-Identifier: Apache-2.0
// Gradient clipping by global norm: sum_squares over any number of tensors -> f32[], and
// clip_coefficient, the factor min(1, max_norm / (sqrt(sum) + 1e-6)) that the optimizer applies to
// each gradient.
#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/op_from.h"

namespace ridge::ops {
namespace {

constexpr double kNormEpsilon = 1e-6;  // PyTorch's clip_grad_norm_ adds it to the norm

struct SumSquaresOp {
  static Op declaration() {
    return {.name = "sum_squares",
            .category = OpCategory::kOptimizer,
            .operands = {1, kAnyNumber},
            .formula = "2 FLOPs an element"};
  }

  static std::vector<Type> infer(const Call& call) {
    for (const Type& input : call.inputs) expect_float("sum_squares", input, "gradients");
    return {f32({})};
  }

  static Work work(const Call& call) {
    int64_t elements = 0;
    for (const Type& input : call.inputs) elements += input.shape.elements();
    return arithmetic(2 * elements);
  }

  static void reference(const Call&, Inputs64 inputs, Outputs64 outputs) {
    outputs[0].data[0] = 0;
    for (const Tensor64* input : inputs)
      for (double x : input->data) outputs[0].data[0] += x * x;
  }

  static std::vector<Case> cases() {
    return {{"three", {{f32({7, 19})}, {f32({1})}, {f32({131})}}, {}}};
  }
};

struct ClipCoefficientOp {
  static Op declaration() {
    return {.name = "clip_coefficient",
            .category = OpCategory::kOptimizer,
            .attrs = {{"max_norm", 0.0}},
            .formula = "4 FLOPs"};
  }

  static std::vector<Type> infer(const Call& call) {
    expect_shape("clip_coefficient", call.inputs[0], Shape{}, "the sum of squares");
    expect_dtype("clip_coefficient", call.inputs[0], DType::kF32, "the sum of squares");
    if (!(call.attrs.real("max_norm") > 0))
      throw usage_error("[clip] expected a norm > 0, got {}", call.attrs.real("max_norm"));
    return {f32({})};
  }

  static Work work(const Call&) { return arithmetic(4, 2); }

  static void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
    double norm = std::sqrt(inputs[0]->data[0]);
    outputs[0].data[0] = std::min(1.0, call.attrs.real("max_norm") / (norm + kNormEpsilon));
  }

  static std::vector<Case> cases() {
    CaseInput sum{f32({}), {Fill::kPositive}, false};
    return {{"clips", {sum}, {{"max_norm", 0.01}}}, {"passes", {sum}, {{"max_norm", 100.0}}}};
  }
};

}  // namespace

const Op& sum_squares_op() { return op_from<SumSquaresOp>(); }

const Op& clip_coefficient_op() { return op_from<ClipCoefficientOp>(); }

}  // namespace ridge::ops
