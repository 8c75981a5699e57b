// SPDX-License-Identifier: Apache-2.0
// The cross-entropy of logits [N,V] of which each of R ranks has V/R columns. Labels i32[N] count
// from the rank's first column: -1 is not counted, V/R is in the columns of another rank.
//   cross_entropy_part      logits [N,V/R], labels -> log of the sum of exp(logits) and the label's
//                           logit, or 0 if it is not here, each f32[N,1]
//   cross_entropy_of_parts  logits, labels, both of all ranks f32[R N,1] -> the outputs of
//                           softmax_cross_entropy: the mean loss, lse f32[N,1], the number of rows
// The gradient goes from the loss to the logits at once, as that of softmax_cross_entropy.
#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/op_from.h"

namespace ridge::ops {
namespace {

struct CrossEntropyPartOp {
  static Op declaration() {
    return {.name = "cross_entropy_part",
            .category = OpCategory::kSoftmaxAndLoss,
            .kind = OpKind::kFused,
            .operands = {2},
            .formula = "4 FLOPs an element and 2 a row"};
  }

  static std::vector<Type> infer(const Call& call) {
    expect_labels("cross_entropy_part", call.inputs[0], call.inputs[1], "logits");
    const Type row = f32({call.inputs[0].shape[0], 1});
    return {row, row};
  }

  // Per element: max, subtract, exp, sum. Per row: log, add.
  static Work work(const Call& call) {
    const Shape& x = call.inputs[0].shape;
    return arithmetic(4 * x.elements() + 2 * x[0], x.elements() + x[0]);
  }

  static void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
    const int64_t n = call.inputs[0].shape[0], v = call.inputs[0].shape[1];
    for (int64_t row = 0; row < n; ++row) {
      const auto at = static_cast<size_t>(row);
      const double* x = &inputs[0]->data[at * static_cast<size_t>(v)];
      const double top = *std::max_element(x, x + v);
      double sum = 0;
      for (int64_t i = 0; i < v; ++i) sum += std::exp(x[i] - top);
      outputs[0].data[at] = top + std::log(sum);
      const auto label = static_cast<int64_t>(inputs[1]->data[at]);
      outputs[1].data[at] = label >= 0 && label < v ? x[label] : 0;
    }
  }

  static std::vector<Case> cases() {
    std::vector<Case> cases;
    for (const Shape& shape : {Shape{1, 1}, Shape{5, 17}, Shape{7, 130}})
      cases.push_back({shape.str(), {{f32(shape)}, ids({shape[0]}, shape[1] + 1)}, {}});
    return cases;
  }
};

struct CrossEntropyOfPartsOp {
  static Op declaration() {
    return {.name = "cross_entropy_of_parts",
            .category = OpCategory::kSoftmaxAndLoss,
            .kind = OpKind::kFused,
            .operands = {4},
            .formula = "5 FLOPs a row and part, and 4 a row"};
  }

  static std::vector<Type> infer(const Call& call) {
    expect_labels("cross_entropy_of_parts", call.inputs[0], call.inputs[1], "logits");
    const int64_t n = call.inputs[0].shape[0];
    for (const Type& each : {call.inputs[2], call.inputs[3]}) {
      expect_rank("cross_entropy_of_parts", each, 2, "the parts");
      if (n == 0 || each.shape[0] % n != 0 || each.shape[0] == 0)
        throw usage_error("[cross_entropy_of_parts] expected {} rows of each part, got {}", n,
                          each.str());
      expect_type("cross_entropy_of_parts", each, f32({call.inputs[2].shape[0], 1}), "the parts");
    }
    return {f32({}), f32({n, 1}), i32({})};
  }

  // Per part: max, subtract, exp, two sums. Per row: log, add, subtract, sum.
  static Work work(const Call& call) {
    const int64_t n = call.inputs[0].shape[0], all = call.inputs[2].shape[0];
    return arithmetic(5 * all + 4 * n, all + n);
  }

  // Only the gradient reads the logits.
  static std::optional<Traffic> traffic(const Call& call) {
    Traffic traffic = whole_operands(call);
    traffic.read_bytes[0] = 0;
    return traffic;
  }

  static std::vector<ValueId> gradient(const GradientCall& call) {
    const Node& n = call.node;
    return {call.builder.call(
                "softmax_cross_entropy_backward",
                {n.inputs[0], n.inputs[1], n.outputs[1], n.outputs[2], call.output_gradients[0]},
                {{"part", true}}),
            kNoValue, kNoValue, kNoValue};
  }

  static void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
    const auto n = static_cast<size_t>(call.inputs[0].shape[0]);
    const std::vector<double>&lse = inputs[2]->data, &at_label = inputs[3]->data;
    double loss = 0, count = 0;
    for (size_t row = 0; row < n; ++row) {
      double top = lse[row], sum = 0, chosen = 0;
      for (size_t at = row; at < lse.size(); at += n) top = std::max(top, lse[at]);
      for (size_t at = row; at < lse.size(); at += n) {
        sum += std::exp(lse[at] - top);
        chosen += at_label[at];
      }
      const double whole = top + std::log(sum);
      outputs[1].data[row] = whole;
      if (inputs[1]->data[row] < 0) continue;
      loss += whole - chosen;
      count += 1;
    }
    outputs[0].data[0] = count > 0 ? loss / count : 0;
    outputs[2].data[0] = count;
  }

  static std::vector<Case> cases() {
    std::vector<Case> cases;
    for (const int64_t parts : {1, 3})
      cases.push_back({std::to_string(parts),
                       {inert(f32({5, 17})), ids({5}, 18), fixed(f32({5 * parts, 1})),
                        fixed(f32({5 * parts, 1}))},
                       {}});
    return cases;
  }
};

}  // namespace

const Op& cross_entropy_part_op() { return op_from<CrossEntropyPartOp>(); }

const Op& cross_entropy_of_parts_op() { return op_from<CrossEntropyOfPartsOp>(); }

}  // namespace ridge::ops
