// SPDX-License-Identifier: Apache-2.0
// log_softmax over the last axis, and its gradient: the first step of cross-entropy in an eager
// framework.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "ops/op_from.h"

namespace ridge::ops {
namespace {

struct LogSoftmaxOp {
  static Op declaration() {
    return {.name = "log_softmax",
            .category = OpCategory::kSoftmaxAndLoss,
            .formula = "5 FLOPs an element and a log a row"};
  }

  static std::vector<Type> infer(const Call& call) {
    expect_float("log_softmax", call.inputs[0], "the operand");
    expect_rank("log_softmax", call.inputs[0], 2, "the operand");
    return {call.inputs[0]};
  }

  // Per element: max, subtract, exp, sum, subtract. Per row: one log.
  static Work work(const Call& call) {
    RowExtents rows = rows_of(call.inputs[0].shape);
    return arithmetic(rows.count * (5 * rows.width + 1), rows.count * (rows.width + 1));
  }

  static std::vector<ValueId> gradient(const GradientCall& call) {
    return {call.builder.call("log_softmax_backward",
                              {call.node.outputs[0], call.output_gradients[0]})};
  }

  static void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
    RowExtents rows = rows_of(call.inputs[0].shape);
    for_each_row(rows, [&](size_t at) {
      const double* x = &inputs[0]->data[at];
      double top = *std::max_element(x, x + rows.width), sum = 0;
      for (int64_t i = 0; i < rows.width; ++i) sum += std::exp(x[i] - top);
      for (int64_t i = 0; i < rows.width; ++i) outputs[0].data[at++] = x[i] - top - std::log(sum);
    });
  }

  static std::vector<Case> cases() {
    return {{"rows", {{f32({5, 67})}}, {}},
            {"one", {{f32({1, 1})}}, {}},
            {"wide", {{f32({3, 1000})}}, {}}};
  }
};

struct LogSoftmaxBackwardOp {
  static Op declaration() {
    return {.name = "log_softmax_backward",
            .category = OpCategory::kSoftmaxAndLoss,
            .operands = {2},
            .formula = "4 FLOPs an element"};
  }

  static std::vector<Type> infer(const Call& call) {
    expect_same("log_softmax_backward", call.inputs[0], call.inputs[1],
                "the result and its gradient");
    return {call.inputs[0]};
  }

  // Per element: exp, sum, multiply, subtract.
  static Work work(const Call& call) {
    int64_t elements = call.inputs[0].shape.elements();
    return arithmetic(4 * elements, elements);
  }

  static void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
    RowExtents rows = rows_of(call.inputs[0].shape);
    for_each_row(rows, [&](size_t at) {
      const double *y = &inputs[0]->data[at], *dy = &inputs[1]->data[at];
      double sum = std::accumulate(dy, dy + rows.width, 0.0);
      for (int64_t i = 0; i < rows.width; ++i) outputs[0].data[at++] = dy[i] - std::exp(y[i]) * sum;
    });
  }

  static std::vector<Case> cases() {
    return {{"rows", {{f32({5, 67}), {}, false}, {f32({5, 67}), {}, false}}, {}}};
  }
};

}  // namespace

const Op& log_softmax_op() { return op_from<LogSoftmaxOp>(); }

const Op& log_softmax_backward_op() { return op_from<LogSoftmaxBackwardOp>(); }

}  // namespace ridge::ops
