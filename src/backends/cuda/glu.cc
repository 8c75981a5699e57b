// SPDX-License-Identifier: Apache-2.0
// Bindings of glu and glu_backward.
#include "backends/cuda/kernels/glu.h"

#include "backends/cuda/cuda_kernel.h"

namespace ridge::backends::cuda {
namespace {

GluActivation activation(const Attrs& attrs) {
  return attrs.text("activation") == "silu" ? GluActivation::kSilu : GluActivation::kGeluTanh;
}

Launch bind(const BindCall& call, BindContext& context) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    const Shape& shape = call.inputs[0].type.shape;
    Glu<T> gate{shape[0],
                shape[1],
                activation(call.attrs()),
                rows<const T>(call.inputs[0]),
                rows<const T>(call.inputs[1]),
                rows<T>(call.outputs[0])};
    return launch_on(context.device, "glu", launch_glu<T>, gate);
  });
}

Launch bind_backward(const BindCall& call, BindContext& context) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    const Shape& shape = call.inputs[0].type.shape;
    GluBackward<T> gate{shape[0],
                        shape[1],
                        activation(call.attrs()),
                        rows<const T>(call.inputs[0]),
                        rows<const T>(call.inputs[1]),
                        rows<const T>(call.inputs[2]),
                        rows<T>(call.outputs[0]),
                        rows<T>(call.outputs[1])};
    return launch_on(context.device, "glu_backward", launch_glu_backward<T>, gate);
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
