// SPDX-License-Identifier: Apache-2.0
// Bindings of what only moves bytes: copy, concat (the parts not seated in the output) and fill.
#include <algorithm>

#include "backends/copy_call.h"
#include "backends/cpu/cpu_kernel.h"
#include "backends/cpu/strided_copy.h"
#include "base/bf16.h"
#include "base/error.h"

namespace ridge::backends::cpu {
namespace {

bool any_layout(const Call&, int, const Layout&) { return true; }

Launch bind_copy(const BindCall& call) { return strided_copy(call.inputs[0], call.outputs[0]); }

Launch bind_concat(const BindCall& call) { return bind_seats(call, strided_copy); }

Launch bind_fill(const BindCall& call) {
  const Operand& out = call.outputs[0];
  double value = call.attrs().real("value");
  int64_t n = out.type.shape.elements();
  switch (out.type.dtype) {
    case DType::kF32:
      return [p = out.as<float>(), n, v = static_cast<float>(value)] { std::fill_n(p, n, v); };
    case DType::kBF16:
      return [p = out.as<uint16_t>(), n, v = float_to_bf16(static_cast<float>(value))] {
        std::fill_n(p, n, v);
      };
    case DType::kI32:
      return [p = out.as<int32_t>(), n, v = static_cast<int32_t>(value)] { std::fill_n(p, n, v); };
    default:
      throw usage_error("[fill] the cpu backend fills f32, bf16 and i32, not {}",
                        name(out.type.dtype));
  }
}

}  // namespace

const CpuKernel& copy_kernel() {
  static const CpuKernel kernel{
      .op = "copy", .bind = bind_copy, .takes_input = any_layout, .takes_output = any_layout};
  return kernel;
}

const CpuKernel& concat_kernel() {
  static const CpuKernel kernel{
      .op = "concat", .bind = bind_concat, .takes_input = any_layout, .takes_output = any_layout};
  return kernel;
}

const CpuKernel& fill_kernel() {
  static const CpuKernel kernel{.op = "fill", .bind = bind_fill};
  return kernel;
}

}  // namespace ridge::backends::cpu
