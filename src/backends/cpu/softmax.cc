// SPDX-License-Identifier: Apache-2.0
// Bindings of softmax, its gradient, and causal_mask.
#include "backends/cpu/kernels/softmax/softmax.h"

#include "backends/cpu/cpu_kernel.h"
#include "backends/cpu/kernels/softmax/causal_mask.h"
#include "backends/softmax_call.h"

namespace ridge::backends::cpu {
namespace {

Launch bind(const BindCall& call) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    return [s = softmax_call<decltype(element)>(call)] { softmax(s); };
  });
}

Launch bind_backward(const BindCall& call) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    return [s = softmax_backward_call<decltype(element)>(call)] { softmax_backward(s); };
  });
}

Launch bind_mask(const BindCall& call) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    return [s = causal_mask_call<decltype(element)>(call)] { causal_mask(s); };
  });
}

CpuKernel row_kernel(std::string_view op, Launch (*bind)(const BindCall&)) {
  return {.op = op,
          .bind = bind,
          .takes_input = lies_in_rows,
          .takes_output = output_lies_in_rows,
          .in_place = true};
}

}  // namespace

const CpuKernel& softmax_kernel() {
  static const CpuKernel kernel = row_kernel("softmax", bind);
  return kernel;
}

const CpuKernel& softmax_backward_kernel() {
  static const CpuKernel kernel = row_kernel("softmax_backward", bind_backward);
  return kernel;
}

const CpuKernel& causal_mask_kernel() {
  static const CpuKernel kernel = row_kernel("causal_mask", bind_mask);
  return kernel;
}

}  // namespace ridge::backends::cpu
