// SPDX-License-Identifier: Apache-2.0
// accumulate: total += x in place, for gradients summed over micro-batches (inputs total, x; output
// the new total), and zero, which clears a total for the next step.
#include <algorithm>
#include <vector>

#include "ops/op_from.h"

namespace ridge::ops {
namespace {

std::vector<Alias> aliases(const Call&) { return {{0, 0}}; }

struct AccumulateOp {
  static Op declaration() {
    return {.name = "accumulate",
            .category = OpCategory::kElementwise,
            .operands = {2},
            .time_law = TimeLaw::kAccessPattern,
            .formula = "1 FLOP an element",
            .aliases = aliases};
  }

  static std::vector<Type> infer(const Call& call) {
    expect_shape("accumulate", call.inputs[1], call.inputs[0].shape, "both operands");
    expect_dtype("accumulate", call.inputs[0], DType::kF32, "the total");
    expect_float("accumulate", call.inputs[1], "the term");
    return {call.inputs[0]};
  }

  static Work work(const Call& call) { return arithmetic(call.inputs[0].shape.elements()); }

  static void reference(const Call&, Inputs64 inputs, Outputs64 outputs) {
    for (size_t i = 0; i < outputs[0].data.size(); ++i)
      outputs[0].data[i] = inputs[0]->data[i] + inputs[1]->data[i];
  }

  static std::vector<Case> cases() {
    return {{"matrix", {{f32({7, 19}), {}, false}, {f32({7, 19})}}, {}}};
  }
};

struct ZeroOp {
  static Op declaration() {
    return {.name = "zero",
            .category = OpCategory::kDataMovement,
            .formula = "no FLOPs; writes each element once",
            .aliases = aliases};
  }

  static std::vector<Type> infer(const Call& call) { return {call.inputs[0]}; }

  static std::optional<Traffic> traffic(const Call& call) {
    Traffic traffic = whole_operands(call);
    traffic.read_bytes[0] = 0;
    return traffic;
  }

  static void reference(const Call&, Inputs64, Outputs64 outputs) {
    std::fill(outputs[0].data.begin(), outputs[0].data.end(), 0.0);
  }

  static std::vector<Case> cases() { return {{"matrix", {{f32({7, 19}), {}, false}}, {}}}; }
};

}  // namespace

const Op& zero_op() { return op_from<ZeroOp>(); }

const Op& accumulate_op() { return op_from<AccumulateOp>(); }

}  // namespace ridge::ops
