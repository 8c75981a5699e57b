// SPDX-License-Identifier: Apache-2.0
// Bindings of rms_norm, add_rms_norm and rms_norm_backward.
#include "backends/cuda/kernels/rms_norm/rms_norm.h"

#include "backends/cuda/cuda_kernel.h"
#include "backends/rms_norm_call.h"

namespace ridge::backends::cuda {
namespace {

Launch bind(const BindCall& call, BindContext& context) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    return launch_on(context.device, "rms_norm", launch_rms_norm<T>, rms_norm_call<T>(call));
  });
}

Launch bind_add(const BindCall& call, BindContext& context) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    return launch_on(context.device, "add_rms_norm", launch_add_rms_norm<T>, rms_norm_call<T>(call),
                     rows<const T>(call.inputs[1]), rows<T>(call.outputs[0]));
  });
}

Launch bind_backward(const BindCall& call, BindContext& context) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    return launch_on(
        context.device, "rms_norm_backward", launch_rms_norm_backward<T>,
        Ticketed<RmsNormBackward<T>>{rms_norm_backward_call<T>(call), context.tickets.take()});
  });
}

int64_t workspace_bytes(const Call& call) {
  return rms_norm_backward_workspace_bytes(call.inputs[0].shape[0], call.inputs[0].shape[1]);
}

}  // namespace

const CudaKernel& rms_norm_kernel() {
  static const CudaKernel kernel{.op = "rms_norm",
                                 .bind = bind,
                                 .takes_input = takes_normed_input,
                                 .takes_output = takes_normed_output,
                                 .in_place = true,
                                 .rounds = 2};
  return kernel;
}

const CudaKernel& add_rms_norm_kernel() {
  static const CudaKernel kernel{.op = "add_rms_norm",
                                 .bind = bind_add,
                                 .takes_input = takes_normed_input,
                                 .takes_output = takes_normed_output,
                                 .rounds = 2};
  return kernel;
}

const CudaKernel& rms_norm_backward_kernel() {
  static const CudaKernel kernel{.op = "rms_norm_backward",
                                 .bind = bind_backward,
                                 .takes_input = takes_normed_input,
                                 .takes_output = takes_normed_output,
                                 .workspace_bytes = workspace_bytes,
                                 .rounds = 6};
  return kernel;
}

}  // namespace ridge::backends::cuda
