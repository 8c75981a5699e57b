// SPDX-License-Identifier: Apache-2.0
// Bindings of softmax, its gradient, and causal_mask.
#include "backends/cuda/kernels/softmax/softmax.h"

#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/softmax/causal_mask.h"
#include "backends/softmax_call.h"

namespace ridge::backends::cuda {
namespace {

Launch bind(const BindCall& call, BindContext& context) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    return launch_on(context.device, "softmax", launch_softmax<T>, softmax_call<T>(call));
  });
}

Launch bind_backward(const BindCall& call, BindContext& context) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    return launch_on(context.device, "softmax_backward", launch_softmax_backward<T>,
                     softmax_backward_call<T>(call));
  });
}

Launch bind_mask(const BindCall& call, BindContext& context) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    return launch_on(context.device, "causal_mask", launch_causal_mask<T>,
                     causal_mask_call<T>(call));
  });
}

CudaKernel row_kernel(std::string_view op, Launch (*bind)(const BindCall&, BindContext&)) {
  return {.op = op,
          .bind = bind,
          .takes_input = lies_in_rows,
          .takes_output = output_lies_in_rows,
          .in_place = true};
}

}  // namespace

const CudaKernel& softmax_kernel() {
  static const CudaKernel kernel = row_kernel("softmax", bind);
  return kernel;
}

const CudaKernel& softmax_backward_kernel() {
  static const CudaKernel kernel = row_kernel("softmax_backward", bind_backward);
  return kernel;
}

const CudaKernel& causal_mask_kernel() {
  static const CudaKernel kernel = row_kernel("causal_mask", bind_mask);
  return kernel;
}

}  // namespace ridge::backends::cuda
