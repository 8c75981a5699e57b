// SPDX-License-Identifier: Apache-2.0
// Bindings of glu and glu_backward.
#include "backends/cpu/kernels/pointwise/glu.h"

#include "backends/cpu/cpu_kernel.h"
#include "backends/glu_call.h"

namespace ridge::backends::cpu {
namespace {

Launch bind(const BindCall& call) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    return [s = glu_call<decltype(element)>(call)] { glu(s); };
  });
}

Launch bind_backward(const BindCall& call) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    return [s = glu_backward_call<decltype(element)>(call)] { glu_backward(s); };
  });
}

}  // namespace

const CpuKernel& glu_kernel() {
  static const CpuKernel kernel{.op = "glu",
                                .bind = bind,
                                .takes_input = lies_in_rows,
                                .takes_output = output_lies_in_rows,
                                .in_place = true};
  return kernel;
}

const CpuKernel& glu_backward_kernel() {
  static const CpuKernel kernel{.op = "glu_backward",
                                .bind = bind_backward,
                                .takes_input = lies_in_rows,
                                .takes_output = output_lies_in_rows,
                                .in_place = true};
  return kernel;
}

}  // namespace ridge::backends::cpu
