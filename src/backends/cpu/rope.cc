// SPDX-License-Identifier: Apache-2.0
// Bindings of rope_table, rope, rope_qkv and rope_qkv_backward.
#include "backends/cpu/kernels/rope.h"

#include "backends/cpu/cpu_kernel.h"
#include "backends/rope_call.h"
#include "base/error.h"

namespace ridge::backends::cpu {
namespace {

Launch bind_table(const BindCall& call) {
  return [table = rope_table_call(call)] { rope_table(table); };
}

Launch bind(const BindCall& call) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    return [s = rope_call<decltype(element)>(call)] { rope(s); };
  });
}

Launch bind_qkv(const BindCall& call) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    return [s = rope_qkv_call<decltype(element)>(call)] { rope(s); };
  });
}

}  // namespace

const CpuKernel& rope_table_kernel() {
  static const CpuKernel kernel{.op = "rope_table", .bind = bind_table};
  return kernel;
}

const CpuKernel& rope_kernel() {
  static const CpuKernel kernel{.op = "rope",
                                .bind = bind,
                                .takes_input = first_lies_in_heads,
                                .takes_output = output_lies_in_heads,
                                .in_place = true};
  return kernel;
}

const CpuKernel& rope_qkv_kernel() {
  static const CpuKernel kernel{.op = "rope_qkv",
                                .bind = bind_qkv,
                                .takes_input = first_lies_in_rows,
                                .takes_output = output_lies_in_rows,
                                .in_place = true};
  return kernel;
}

const CpuKernel& rope_qkv_backward_kernel() {
  static const CpuKernel kernel{.op = "rope_qkv_backward",
                                .bind = bind_qkv,
                                .takes_input = first_lies_in_rows,
                                .takes_output = output_lies_in_rows,
                                .in_place = true};
  return kernel;
}

}  // namespace ridge::backends::cpu
