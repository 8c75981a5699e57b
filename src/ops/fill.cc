// SPDX-License-Identifier: Apache-2.0
// fill: a tensor of one constant. No inputs.
#include <algorithm>
#include <vector>

#include "ops/build.h"
#include "ops/infer.h"

namespace ridge::ops {
namespace {

std::vector<Type> infer(const Call& call) {
  auto dtype = parse_dtype(call.attrs.text("dtype"));
  if (!dtype || is_block(*dtype))
    throw usage_error("[fill] unknown type '{}'", call.attrs.text("dtype"));
  return {{*dtype, Shape(call.attrs.integers("shape"))}};
}

void reference(const Call& call, std::span<const Tensor64* const>, std::span<Tensor64> outputs) {
  std::fill(outputs[0].data.begin(), outputs[0].data.end(), call.attrs.real("value"));
}

std::vector<Case> cases() {
  auto filled = [](std::string dtype, double value) {
    return Case{
        dtype, {}, {{"shape", std::vector<int64_t>{3, 7}}, {"value", value}, {"dtype", dtype}}};
  };
  return {filled("f32", 0.5), filled("bf16", -3.25), filled("i32", 7)};
}

}  // namespace

const Op& fill_op() {
  static const Op op{
      .name = "fill",
      .min_inputs = 0,
      .max_inputs = 0,
      .attrs = {{"shape", std::vector<int64_t>{}}, {"value", 0.0}, {"dtype", std::string()}},
      .formula = "no FLOPs; writes each element once",
      .infer = infer,
      .reference = reference,
      .cases = cases};
  return op;
}

}  // namespace ridge::ops
