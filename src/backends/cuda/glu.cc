// SPDX-License-Identifier: Apache-2.0
// Bindings of glu and glu_backward.
#include "backends/cuda/kernels/pointwise/glu.h"

#include "backends/cuda/cuda_kernel.h"
#include "backends/glu_call.h"

namespace ridge::backends::cuda {
namespace {

Launch bind(const BindCall& call, BindContext& context) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    return launch_on(context.device, "glu", launch_glu<T>, glu_call<T>(call));
  });
}

Launch bind_backward(const BindCall& call, BindContext& context) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    return launch_on(context.device, "glu_backward", launch_glu_backward<T>,
                     glu_backward_call<T>(call));
  });
}

}  // namespace

const CudaKernel& glu_kernel() {
  static const CudaKernel kernel{.op = "glu",
                                 .bind = bind,
                                 .takes_input = lies_in_rows,
                                 .takes_output = output_lies_in_rows,
                                 .in_place = true};
  return kernel;
}

const CudaKernel& glu_backward_kernel() {
  static const CudaKernel kernel{.op = "glu_backward",
                                 .bind = bind_backward,
                                 .takes_input = lies_in_rows,
                                 .takes_output = output_lies_in_rows,
                                 .in_place = true};
  return kernel;
}

}  // namespace ridge::backends::cuda
