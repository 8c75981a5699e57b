// SPDX-License-Identifier: Apache-2.0
// nll_loss: log probabilities [N,V] and labels i32[N] -> the mean of -log p[label] over rows with a
// label >= 0, and their number i32[]. Also its gradient, which is zero but at the labels.
#include <algorithm>
#include <vector>

#include "ops/build.h"
#include "ops/infer.h"

namespace ridge::ops {
namespace {

void expect_labels(std::string_view op, const Type& rows, const Type& labels) {
  expect_rank(op, rows, 2, "log probabilities");
  expect_float(op, rows, "log probabilities");
  expect_dtype(op, labels, DType::kI32, "labels");
  expect_shape(op, labels, Shape{rows.shape[0]}, "labels");
}

std::vector<Type> infer(const Call& call) {
  expect_labels("nll_loss", call.inputs[0], call.inputs[1]);
  return {f32({}), i32({})};
}

Work work(const Call& call) { return arithmetic(call.inputs[0].shape[0]); }

// A gather: one probability a row.
std::optional<Traffic> traffic(const Call& call) {
  int64_t n = call.inputs[0].shape[0];
  return Traffic{storage_bytes(call.inputs[0].dtype, n) + 4 * n, 8};
}

std::vector<ValueId> gradient(const GradientCall& call) {
  return {call.builder.call("nll_loss_backward", {call.node.inputs[0], call.node.inputs[1],
                                                  call.node.outputs[1], call.output_gradients[0]}),
          kNoValue};
}

double count_labels(const Tensor64& labels) {
  return static_cast<double>(
      std::count_if(labels.data.begin(), labels.data.end(), [](double l) { return l >= 0; }));
}

void reference(const Call& call,
               std::span<const Tensor64* const> inputs,
               std::span<Tensor64> outputs) {
  int64_t v = call.inputs[0].shape[1];
  double sum = 0;
  for (size_t n = 0; n < inputs[1]->data.size(); ++n)
    if (inputs[1]->data[n] >= 0)
      sum -= inputs[0]->data[n * static_cast<size_t>(v) + static_cast<size_t>(inputs[1]->data[n])];
  double count = count_labels(*inputs[1]);
  outputs[0].data[0] = count > 0 ? sum / count : 0;
  outputs[1].data[0] = count;
}

CaseInput labels(int64_t n, int64_t v) {
  return {i32({n}), {Fill::kIds, static_cast<double>(v), false}};
}

std::vector<Case> cases() {
  return {{"rows", {{f32({7, 67}), {}, false}, labels(7, 67)}, {}},
          {"one", {{f32({1, 1}), {}, false}, labels(1, 1)}, {}}};
}

// Inputs: log probabilities (for their shape), labels, the count, the loss's gradient.
std::vector<Type> infer_backward(const Call& call) {
  expect_labels("nll_loss_backward", call.inputs[0], call.inputs[1]);
  expect_type("nll_loss_backward", call.inputs[2], i32({}), "the count");
  expect_type("nll_loss_backward", call.inputs[3], f32({}), "the loss's gradient");
  return {call.inputs[0]};
}

std::optional<Traffic> traffic_backward(const Call& call) {
  int64_t n = call.inputs[0].shape[0];
  return Traffic{4 * n + 4, storage_bytes(call.outputs[0].dtype, call.outputs[0].shape.elements())};
}

void reference_backward(const Call& call,
                        std::span<const Tensor64* const> inputs,
                        std::span<Tensor64> outputs) {
  int64_t v = call.inputs[0].shape[1];
  std::fill(outputs[0].data.begin(), outputs[0].data.end(), 0.0);
  double count = inputs[2]->data[0];
  for (size_t n = 0; n < inputs[1]->data.size(); ++n)
    if (inputs[1]->data[n] >= 0)
      outputs[0].data[n * static_cast<size_t>(v) + static_cast<size_t>(inputs[1]->data[n])] =
          -inputs[3]->data[0] / count;
}

std::vector<Case> cases_backward() {
  return {{"rows",
           {{f32({7, 67}), {}, false},
            labels(7, 67),
            {i32({}), {Fill::kConstant, 7, false}},
            {f32({}), {}, false}},
           {}}};
}

}  // namespace

const Op& nll_loss_op() {
  static const Op op{.name = "nll_loss",
                     .min_inputs = 2,
                     .max_inputs = 2,
                     .formula = "1 FLOP a row",
                     .infer = infer,
                     .work = work,
                     .traffic = traffic,
                     .gradient = gradient,
                     .reference = reference,
                     .cases = cases};
  return op;
}

const Op& nll_loss_backward_op() {
  static const Op op{.name = "nll_loss_backward",
                     .min_inputs = 4,
                     .max_inputs = 4,
                     .formula = "no FLOPs: writes -d/count at the labels",
                     .infer = infer_backward,
                     .traffic = traffic_backward,
                     .reference = reference_backward,
                     .cases = cases_backward};
  return op;
}

}  // namespace ridge::ops
