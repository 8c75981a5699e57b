// SPDX-License-Identifier: Apache-2.0
// Bindings of softmax, its gradient, and causal_mask.
#include "backends/cuda/kernels/softmax.h"

#include <algorithm>

#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/causal_mask.h"
#include "ops/infer.h"

namespace ridge::backends::cuda {
namespace {

Launch bind(const BindCall& call, BindContext& context) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    ops::Rows extents = ops::rows_of(call.inputs[0].type.shape);
    Softmax<T> s;
    s.rows = extents.count;
    s.columns = extents.width;
    s.x = rows<const T>(call.inputs[0]);
    s.y = rows<T>(call.outputs[0]);
    return launch_on(context.device, "softmax", launch_softmax<T>, s);
  });
}

Launch bind_backward(const BindCall& call, BindContext& context) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    ops::Rows extents = ops::rows_of(call.inputs[0].type.shape);
    SoftmaxBackward<T> s;
    s.rows = extents.count;
    s.columns = extents.width;
    s.y = rows<const T>(call.inputs[0]);
    s.dy = rows<const T>(call.inputs[1]);
    s.dx = rows<T>(call.outputs[0]);
    return launch_on(context.device, "softmax_backward", launch_softmax_backward<T>, s);
  });
}

Launch bind_mask(const BindCall& call, BindContext& context) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    int64_t t = call.inputs[0].type.shape.back();
    CausalMask<T> mask{call.inputs[0].type.shape.elements() / std::max<int64_t>(t, 1),
                       t,
                       call.attrs().integer("window"),
                       static_cast<float>(call.attrs().real("value")),
                       rows<const T>(call.inputs[0]),
                       rows<T>(call.outputs[0])};
    return launch_on(context.device, "causal_mask", launch_causal_mask<T>, mask);
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
