// SPDX-License-Identifier: Apache-2.0
// send and receive: a tensor moves between two ranks of a pipeline, which are a group of their own,
// so each names the other by the group alone. They count as collectives: both ranks of the group
// run them at the same place of its sequence. send makes nothing that other nodes read, so its
// result is empty. receive overwrites its operand, if it has one: a state of the same type.
#include <algorithm>
#include <vector>

#include "ops/collective.h"

namespace ridge::ops {
namespace {

int64_t two_ranks(std::string_view op, const Call& call) {
  const int64_t ranks = ranks_of(op, call);
  if (ranks > 2) throw usage_error("[{}] expected a group of 2 ranks, got {}", op, ranks);
  return ranks;
}

struct SendOp {
  static Op declaration() {
    return {.name = "send",
            .category = OpCategory::kCollective,
            .attrs = {{"group", std::string()}, {"ranks", int64_t{1}}},
            .formula = "no FLOPs; sends its bytes"};
  }

  static std::vector<Type> infer(const Call& call) {
    two_ranks("send", call);
    if (call.inputs[0].dtype != DType::kI32) expect_float("send", call.inputs[0], "the tensor");
    return {f32({0})};
  }

  static int64_t sent_bytes(const Call& call) {
    return bytes_of(call.inputs[0]) * (call.attrs.integer("ranks") - 1);
  }

  static void reference(const Call&, Inputs64, Outputs64) {}

  static std::vector<Case> cases() {
    return {
        {"to_nobody", {{f32({7, 19}), {}, false}}, {{"group", "pipeline"}, {"ranks", int64_t{1}}}}};
  }
};

struct ReceiveOp {
  static Op declaration() {
    return {.name = "receive",
            .category = OpCategory::kCollective,
            .operands = {0, 1},
            .attrs = {{"group", std::string()},
                      {"ranks", int64_t{1}},
                      {"shape", std::vector<int64_t>{}, false},
                      {"dtype", std::string(), false}},
            .formula = "no FLOPs; writes what the other rank sends"};
  }

  static std::vector<Type> infer(const Call& call) {
    two_ranks("receive", call);
    if (!call.inputs.empty()) return {call.inputs[0]};
    return {
        {result_dtype("receive", call.attrs, DType::kF32), Shape(call.attrs.integers("shape"))}};
  }

  static std::vector<Alias> aliases(const Call& call) {
    return call.inputs.empty() ? std::vector<Alias>() : std::vector<Alias>{{0, 0}};
  }

  // The old contents of a state are not read.
  static std::optional<Traffic> traffic(const Call& call) {
    return Traffic{std::vector<int64_t>(call.inputs.size(), 0), {bytes_of(call.outputs[0])}};
  }
  static int64_t sent_bytes(const Call&) { return 0; }

  // As if the other rank sent zeros.
  static void reference(const Call&, Inputs64, Outputs64 outputs) {
    std::fill(outputs[0].data.begin(), outputs[0].data.end(), 0.0);
  }

  static std::vector<Case> cases() {
    return {{"from_nobody",
             {},
             {{"group", "pipeline"},
              {"ranks", int64_t{1}},
              {"shape", std::vector<int64_t>{7, 19}},
              {"dtype", "f32"}}},
            {"into_a_state",
             {{f32({131}), {}, false}},
             {{"group", "pipeline"}, {"ranks", int64_t{1}}}}};
  }
};

}  // namespace

const Op& send_op() { return op_from<SendOp>(); }

const Op& receive_op() { return op_from<ReceiveOp>(); }

}  // namespace ridge::ops
