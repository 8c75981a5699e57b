// SPDX-License-Identifier: Apache-2.0
// nll_loss: log probabilities [N,V] and labels i32[N] -> the mean of -log p[label] over the rows
// with a label >= 0, and their number i32[]. Also its gradient, which is zero except at the labels.
#include <algorithm>
#include <vector>

#include "ops/op_from.h"

namespace ridge::ops {
namespace {

double count_labels(const Tensor64& labels) {
  return static_cast<double>(
      std::count_if(labels.data.begin(), labels.data.end(), [](double l) { return l >= 0; }));
}

struct NllLossOp {
  static Op declaration() {
    return {.name = "nll_loss",
            .category = OpCategory::kSoftmaxAndLoss,
            .operands = {2},
            .formula = "1 FLOP a row"};
  }

  static std::vector<Type> infer(const Call& call) {
    expect_labels("nll_loss", call.inputs[0], call.inputs[1], "log probabilities");
    return {f32({}), i32({})};
  }

  static Work work(const Call& call) { return arithmetic(call.inputs[0].shape[0]); }

  // A gather of one probability per row.
  static std::optional<Traffic> traffic(const Call& call) {
    Traffic traffic = whole_operands(call);
    traffic.read_bytes[0] = storage_bytes(call.inputs[0].dtype, call.inputs[0].shape[0]);
    return traffic;
  }

  static std::vector<ValueId> gradient(const GradientCall& call) {
    return {
        call.builder.call("nll_loss_backward", {call.node.inputs[0], call.node.inputs[1],
                                                call.node.outputs[1], call.output_gradients[0]}),
        kNoValue};
  }

  static void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
    int64_t v = call.inputs[0].shape[1];
    double sum = 0;
    for (size_t n = 0; n < inputs[1]->data.size(); ++n)
      if (inputs[1]->data[n] >= 0)
        sum -=
            inputs[0]->data[n * static_cast<size_t>(v) + static_cast<size_t>(inputs[1]->data[n])];
    double count = count_labels(*inputs[1]);
    outputs[0].data[0] = count > 0 ? sum / count : 0;
    outputs[1].data[0] = count;
  }

  static std::vector<Case> cases() {
    return {{"rows", {{f32({7, 67}), {}, false}, ids({7}, 67)}, {}},
            {"one", {{f32({1, 1}), {}, false}, ids({1}, 1)}, {}}};
  }
};

struct NllLossBackwardOp {
  static Op declaration() {
    return {.name = "nll_loss_backward",
            .category = OpCategory::kSoftmaxAndLoss,
            .operands = {4},
            .formula = "no FLOPs: writes -d/count at the labels"};
  }

  // Inputs: log probabilities (for their shape), labels, the count, the loss's gradient.
  static std::vector<Type> infer(const Call& call) {
    expect_labels("nll_loss_backward", call.inputs[0], call.inputs[1], "log probabilities");
    expect_type("nll_loss_backward", call.inputs[2], i32({}), "the count");
    expect_type("nll_loss_backward", call.inputs[3], f32({}), "the loss's gradient");
    return {call.inputs[0]};
  }

  // Only the shape of the log probabilities matters.
  static std::optional<Traffic> traffic(const Call& call) {
    Traffic traffic = whole_operands(call);
    traffic.read_bytes[0] = 0;
    return traffic;
  }

  static void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
    int64_t v = call.inputs[0].shape[1];
    std::fill(outputs[0].data.begin(), outputs[0].data.end(), 0.0);
    double count = inputs[2]->data[0];
    for (size_t n = 0; n < inputs[1]->data.size(); ++n)
      if (inputs[1]->data[n] >= 0)
        outputs[0].data[n * static_cast<size_t>(v) + static_cast<size_t>(inputs[1]->data[n])] =
            -inputs[3]->data[0] / count;
  }

  static std::vector<Case> cases() {
    return {{"rows",
             {{f32({7, 67}), {}, false}, ids({7}, 67), constant(i32({}), 7), {f32({}), {}, false}},
             {}}};
  }
};

}  // namespace

const Op& nll_loss_op() { return op_from<NllLossOp>(); }

const Op& nll_loss_backward_op() { return op_from<NllLossBackwardOp>(); }

}  // namespace ridge::ops
