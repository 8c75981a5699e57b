// SPDX-License-Identifier: Apache-2.0
// softmax over the last axis, and its gradient. Rows that are fully masked (all -inf) become zeros.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "ops/op_from.h"

namespace ridge::ops {
namespace {

struct SoftmaxOp {
  static Op declaration() {
    return {.name = "softmax",
            .category = OpCategory::kSoftmaxAndLoss,
            .attrs = {{"convention", std::string(), false}},
            .formula = "5 FLOPs an element: max, subtract, exp, sum, divide"};
  }

  static std::vector<Type> infer(const Call& call) {
    expect_float("softmax", call.inputs[0], "the operand");
    if (call.inputs[0].shape.rank() == 0)
      throw usage_error("[softmax] expected a rank of 1 or more");
    return {call.inputs[0]};
  }

  // Per element: max, subtract, exp, sum, divide.
  static Work work(const Call& call) {
    int64_t elements = call.inputs[0].shape.elements();
    return arithmetic(5 * elements, 2 * elements);
  }

  // `three_pass_softmax` counts an unfused softmax, which reads its row three times (max, exp,
  // divide) and writes it twice. One kernel that keeps the row in cache reads and writes once.
  static std::optional<Traffic> traffic(const Call& call) {
    if (call.attrs.text("convention") != "three_pass_softmax") return std::nullopt;
    int64_t bytes = bytes_of(call.inputs[0]);
    return Traffic{{3 * bytes}, {2 * bytes}};
  }

  static std::vector<ValueId> gradient(const GradientCall& call) {
    return {
        call.builder.call("softmax_backward", {call.node.outputs[0], call.output_gradients[0]})};
  }

  static void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
    RowExtents rows = rows_of(call.inputs[0].shape);
    for_each_row(rows, [&](size_t at) {
      const double* x = &inputs[0]->data[at];
      double* y = &outputs[0].data[at];
      double top = *std::max_element(x, x + rows.width), sum = 0;
      for (int64_t i = 0; i < rows.width; ++i)
        sum += y[i] = std::isinf(top) ? 0 : std::exp(x[i] - top);
      for (int64_t i = 0; sum > 0 && i < rows.width; ++i) y[i] /= sum;
    });
  }

  static std::vector<Case> cases() {
    std::vector<Case> cases;
    for (const Shape& shape : {Shape{1, 1}, Shape{3, 17}, Shape{2, 3, 5, 67}, Shape{4, 256}})
      cases.push_back({shape.str(), {{f32(shape)}}, {}});
    return cases;
  }
};

struct SoftmaxBackwardOp {
  static Op declaration() {
    return {.name = "softmax_backward",
            .category = OpCategory::kSoftmaxAndLoss,
            .operands = {2},
            .formula = "4 FLOPs an element"};
  }

  static std::vector<Type> infer(const Call& call) {
    expect_same("softmax_backward", call.inputs[0], call.inputs[1], "the result and its gradient");
    return {call.inputs[0]};
  }

  // Per element: dy * y, sum, subtract, multiply.
  static Work work(const Call& call) { return arithmetic(4 * call.inputs[0].shape.elements()); }

  static void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
    RowExtents rows = rows_of(call.inputs[0].shape);
    for_each_row(rows, [&](size_t at) {
      const double *y = &inputs[0]->data[at], *dy = &inputs[1]->data[at];
      double dot = std::inner_product(y, y + rows.width, dy, 0.0);
      for (int64_t i = 0; i < rows.width; ++i) outputs[0].data[at++] = y[i] * (dy[i] - dot);
    });
  }

  static std::vector<Case> cases() {
    return {{"rows", {{f32({5, 67}), {Fill::kPositive}}, {f32({5, 67})}}, {}},
            {"one", {{f32({1, 1})}, {f32({1, 1})}}, {}}};
  }
};

}  // namespace

const Op& softmax_op() { return op_from<SoftmaxOp>(); }

const Op& softmax_backward_op() { return op_from<SoftmaxBackwardOp>(); }

}  // namespace ridge::ops
