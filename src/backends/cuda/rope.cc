// SPDX-License-Identifier: Apache-2.0
// Bindings of rope_table, rope, rope_qkv and rope_qkv_backward.
#include "backends/cuda/kernels/rope/rope.h"

#include "backends/cuda/cuda_kernel.h"
#include "backends/rope_call.h"
#include "base/error.h"

namespace ridge::backends::cuda {
namespace {

Launch bind_table(const BindCall& call, BindContext& context) {
  return launch_on(context.device, "rope_table", launch_rope_table, rope_table_call(call));
}

Launch bind(const BindCall& call, BindContext& context) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    return launch_on(context.device, "rope", launch_rope<T>, rope_call<T>(call));
  });
}

Launch bind_qkv(const BindCall& call, BindContext& context) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    return launch_on(context.device, "rope_qkv", launch_rope<T>, rope_qkv_call<T>(call));
  });
}

}  // namespace

const CudaKernel& rope_table_kernel() {
  static const CudaKernel kernel{.op = "rope_table", .bind = bind_table};
  return kernel;
}

const CudaKernel& rope_kernel() {
  static const CudaKernel kernel{.op = "rope",
                                 .bind = bind,
                                 .takes_input = first_lies_in_heads,
                                 .takes_output = output_lies_in_heads,
                                 .in_place = true};
  return kernel;
}

const CudaKernel& rope_qkv_kernel() {
  static const CudaKernel kernel{.op = "rope_qkv",
                                 .bind = bind_qkv,
                                 .takes_input = first_lies_in_rows,
                                 .takes_output = output_lies_in_rows,
                                 .in_place = true};
  return kernel;
}

const CudaKernel& rope_qkv_backward_kernel() {
  static const CudaKernel kernel{.op = "rope_qkv_backward",
                                 .bind = bind_qkv,
                                 .takes_input = first_lies_in_rows,
                                 .takes_output = output_lies_in_rows,
                                 .in_place = true};
  return kernel;
}

}  // namespace ridge::backends::cuda
