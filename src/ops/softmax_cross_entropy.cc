// SPDX-License-Identifier: Apache-2.0
// softmax_cross_entropy (composite): logits [N,V] and labels i32[N] (-1 = not counted) -> the mean
// loss f32[], lse f32[N,1] and the number of counted rows i32[]. If kept whole, it never writes
// probabilities: the gradient recomputes them from lse.
#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/op_from.h"

namespace ridge::ops {
namespace {

// Per element: subtract lse, exp, scale. Per row: subtract at the label.
Work backward_work(const Shape& x) { return arithmetic(3 * x.elements() + x[0], x.elements()); }

double row_lse(const double* x, int64_t v) {
  double top = *std::max_element(x, x + v), sum = 0;
  for (int64_t i = 0; i < v; ++i) sum += std::exp(x[i] - top);
  return top + std::log(sum);
}

struct SoftmaxCrossEntropyOp {
  static Op declaration() {
    return {.name = "softmax_cross_entropy",
            .category = OpCategory::kSoftmaxAndLoss,
            .kind = OpKind::kComposite,
            .operands = {2},
            .attrs = {{"fused", false, false}},
            .formula = "4 FLOPs an element and 4 a row"};
  }

  static std::vector<Type> infer(const Call& call) {
    expect_labels("softmax_cross_entropy", call.inputs[0], call.inputs[1], "logits");
    return {f32({}), f32({call.inputs[0].shape[0], 1}), i32({})};
  }

  // Per element: max, subtract, exp, sum. Per row: log, add, subtract the label's logit, sum.
  static Work work(const Call& call) {
    const Shape& x = call.inputs[0].shape;
    return arithmetic(4 * x.elements() + 4 * x[0], x.elements() + x[0]);
  }

  static ModelWork model_work(const Call& call) {
    return {work(call), backward_work(call.inputs[0].shape)};
  }

  static std::vector<ValueId> gradient(const GradientCall& call) {
    const Node& n = call.node;
    return {call.builder.call(
                "softmax_cross_entropy_backward",
                {n.inputs[0], n.inputs[1], n.outputs[1], n.outputs[2], call.output_gradients[0]}),
            kNoValue};
  }

  // log_softmax and nll_loss in fp32, as in an eager framework. lse is the distance between a logit
  // and its log-probability; where nothing reads it, its nodes are removed.
  static std::vector<ValueId> expand(Builder& b, const Node& node) {
    ValueId logits = cast(b, node.inputs[0], DType::kF32);
    ValueId log_probabilities = b.call("log_softmax", {logits});
    std::vector<ValueId> made = b.call_all("nll_loss", {log_probabilities, node.inputs[1]});
    ValueId lse = sub(b, slice(b, logits, 1, 0, 1), slice(b, log_probabilities, 1, 0, 1));
    return {made[0], lse, made[1]};
  }

  static void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
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

  static std::vector<Case> cases() {
    std::vector<Case> cases;
    for (const Shape& shape : {Shape{1, 1}, Shape{5, 17}, Shape{7, 130}})
      cases.push_back({shape.str(), {{f32(shape)}, ids({shape[0]}, shape[1])}, {}});
    return cases;
  }
};

struct SoftmaxCrossEntropyBackwardOp {
  static Op declaration() {
    return {.name = "softmax_cross_entropy_backward",
            .category = OpCategory::kSoftmaxAndLoss,
            .kind = OpKind::kFused,
            .operands = {5},
            .attrs = {{"part", false, false}},
            .formula = "3 FLOPs an element and 1 a row"};
  }

  // Inputs logits, labels, lse, the count, the loss's gradient. Of columns that are a part of the
  // vocabulary, a label behind them is in another part.
  static std::vector<Type> infer(const Call& call) {
    expect_labels("softmax_cross_entropy_backward", call.inputs[0], call.inputs[1], "logits");
    expect_type("softmax_cross_entropy_backward", call.inputs[2], f32({call.inputs[0].shape[0], 1}),
                "lse");
    expect_type("softmax_cross_entropy_backward", call.inputs[3], i32({}), "the count");
    expect_type("softmax_cross_entropy_backward", call.inputs[4], f32({}), "the loss's gradient");
    return {call.inputs[0]};
  }

  static Work work(const Call& call) { return backward_work(call.inputs[0].shape); }

  static void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
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

  static std::vector<Case> cases() {
    return {{"rows",
             {{f32({7, 67})},
              ids({7}, 67),
              {f32({7, 1}), {Fill::kConstant, 5}, false},
              constant(i32({}), 7),
              {f32({}), {}, false}},
             {}},
            {"part",
             {{f32({7, 67})},
              ids({7}, 68),
              {f32({7, 1}), {Fill::kConstant, 5}, false},
              constant(i32({}), 7),
              {f32({}), {}, false}},
             {{"part", true}}}};
  }
};

}  // namespace

const Op& softmax_cross_entropy_op() { return op_from<SoftmaxCrossEntropyOp>(); }

const Op& softmax_cross_entropy_backward_op() { return op_from<SoftmaxCrossEntropyBackwardOp>(); }

}  // namespace ridge::ops
