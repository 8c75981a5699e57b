// SPDX-License-Identifier: Apache-2.0
// Bindings of rms_norm, add_rms_norm and rms_norm_backward.
#include "backends/cpu/kernels/rms_norm.h"

#include "backends/cpu/cpu_kernel.h"
#include "backends/rms_norm_call.h"

namespace ridge::backends::cpu {
namespace {

Launch bind(const BindCall& call) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    return [s = rms_norm_call<decltype(element)>(call)] { rms_norm(s); };
  });
}

Launch bind_add(const BindCall& call) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    return [s = rms_norm_call<T>(call), residual = rows<const T>(call.inputs[1]),
            sum = rows<T>(call.outputs[0])] { add_rms_norm(s, residual, sum); };
  });
}

Launch bind_backward(const BindCall& call) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    return [s = rms_norm_backward_call<decltype(element)>(call)] { rms_norm_backward(s); };
  });
}

int64_t workspace_bytes(const Call& call) {
  return rms_norm_backward_workspace_bytes(call.inputs[0].shape[0], call.inputs[0].shape[1]);
}

}  // namespace

const CpuKernel& rms_norm_kernel() {
  static const CpuKernel kernel{.op = "rms_norm",
                                .bind = bind,
                                .takes_input = takes_normed_input,
                                .takes_output = takes_normed_output,
                                .in_place = true};
  return kernel;
}

const CpuKernel& add_rms_norm_kernel() {
  static const CpuKernel kernel{.op = "add_rms_norm",
                                .bind = bind_add,
                                .takes_input = takes_normed_input,
                                .takes_output = takes_normed_output};
  return kernel;
}

const CpuKernel& rms_norm_backward_kernel() {
  static const CpuKernel kernel{.op = "rms_norm_backward",
                                .bind = bind_backward,
                                .takes_input = takes_normed_input,
                                .takes_output = takes_normed_output,
                                .workspace_bytes = workspace_bytes};
  return kernel;
}

}  // namespace ridge::backends::cpu
