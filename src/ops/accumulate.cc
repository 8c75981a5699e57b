// SPDX-License-Identifier: Apache-2.0
// accumulate: total += x in place, for gradients summed over micro-batches (inputs total, x; output
// the new total), and zero, which clears a total for the next step.
#include <algorithm>
#include <vector>

#include "ops/build.h"
#include "ops/infer.h"

namespace ridge::ops {
namespace {

std::vector<Type> infer(const Call& call) {
  expect_shape("accumulate", call.inputs[1], call.inputs[0].shape, "both operands");
  expect_dtype("accumulate", call.inputs[0], DType::kF32, "the total");
  expect_float("accumulate", call.inputs[1], "the term");
  return {call.inputs[0]};
}

Work work(const Call& call) { return arithmetic(call.inputs[0].shape.elements()); }
std::vector<Alias> aliases(const Call&) { return {{0, 0}}; }

void reference(const Call&, std::span<const Tensor64* const> inputs, std::span<Tensor64> outputs) {
  for (size_t i = 0; i < outputs[0].data.size(); ++i)
    outputs[0].data[i] = inputs[0]->data[i] + inputs[1]->data[i];
}

std::vector<Case> cases() { return {{"matrix", {{f32({7, 19}), {}, false}, {f32({7, 19})}}, {}}}; }

std::vector<Type> infer_zero(const Call& call) { return {call.inputs[0]}; }

std::optional<Traffic> traffic_zero(const Call& call) {
  return Traffic{0, storage_bytes(call.inputs[0].dtype, call.inputs[0].shape.elements())};
}

void reference_zero(const Call&, std::span<const Tensor64* const>, std::span<Tensor64> outputs) {
  std::fill(outputs[0].data.begin(), outputs[0].data.end(), 0.0);
}

std::vector<Case> cases_zero() { return {{"matrix", {{f32({7, 19}), {}, false}}, {}}}; }

}  // namespace

const Op& zero_op() {
  static const Op op{.name = "zero",
                     .formula = "no FLOPs; writes each element once",
                     .infer = infer_zero,
                     .traffic = traffic_zero,
                     .aliases = aliases,
                     .reference = reference_zero,
                     .cases = cases_zero};
  return op;
}

const Op& accumulate_op() {
  static const Op op{.name = "accumulate",
                     .min_inputs = 2,
                     .max_inputs = 2,
                     .time_law = TimeLaw::kWalk,
                     .formula = "1 FLOP an element",
                     .infer = infer,
                     .work = work,
                     .aliases = aliases,
                     .reference = reference,
                     .cases = cases};
  return op;
}

}  // namespace ridge::ops
