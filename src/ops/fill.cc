// SPDX-License-Identifier: Apache-2.0
// fill: a tensor of one constant. No inputs.
#include <algorithm>
#include <vector>

#include "ops/op_from.h"

namespace ridge::ops {
namespace {

struct FillOp {
  static Op declaration() {
    return {.name = "fill",
            .category = OpCategory::kDataMovement,
            .operands = {0},
            .attrs = {{"shape", std::vector<int64_t>{}}, {"value", 0.0}, {"dtype", std::string()}},
            .formula = "no FLOPs; writes each element once"};
  }

  static std::vector<Type> infer(const Call& call) {
    auto dtype = parse_dtype(call.attrs.text("dtype"));
    if (!dtype || is_block(*dtype))
      throw usage_error("[fill] unknown type '{}'", call.attrs.text("dtype"));
    return {{*dtype, Shape(call.attrs.integers("shape"))}};
  }

  static void reference(const Call& call, Inputs64, Outputs64 outputs) {
    std::fill(outputs[0].data.begin(), outputs[0].data.end(), call.attrs.real("value"));
  }

  static std::vector<Case> cases() {
    auto filled = [](std::string dtype, double value) {
      return Case{
          dtype, {}, {{"shape", std::vector<int64_t>{3, 7}}, {"value", value}, {"dtype", dtype}}};
    };
    return {filled("f32", 0.5), filled("bf16", -3.25), filled("i32", 7)};
  }
};

}  // namespace

const Op& fill_op() { return op_from<FillOp>(); }

}  // namespace ridge::ops
