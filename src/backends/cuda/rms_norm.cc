// SPDX-License-Identifier: Apache-2.0
// Bindings of rms_norm, add_rms_norm and rms_norm_backward.
#include "backends/cuda/kernels/rms_norm.h"

#include "backends/cuda/cuda_kernel.h"

namespace ridge::backends::cuda {
namespace {

// x is input `x`, the weight input `weight`; y and rstd are outputs.
template <typename T>
RmsNorm<T> forward(const BindCall& call,
                   const Operand& x,
                   const Operand& weight,
                   const Operand& y,
                   const Operand& rstd) {
  RmsNorm<T> norm;
  norm.tokens = x.type.shape[0];
  norm.width = x.type.shape[1];
  norm.x = rows<const T>(x);
  norm.weight = weight.as<const float>();
  norm.eps = static_cast<float>(call.attrs().real("eps"));
  norm.weight_offset = static_cast<float>(call.attrs().real("offset"));
  norm.y = rows<T>(y);
  norm.rstd = rstd.as<float>();
  return norm;
}

Launch bind(const BindCall& call, BindContext& context) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    auto norm = forward<T>(call, call.inputs[0], call.inputs[1], call.outputs[0], call.outputs[1]);
    return launch_on(context.device, "rms_norm", launch_rms_norm<T>, norm);
  });
}

Launch bind_add(const BindCall& call, BindContext& context) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    auto norm = forward<T>(call, call.inputs[0], call.inputs[2], call.outputs[1], call.outputs[2]);
    return launch_on(context.device, "add_rms_norm", launch_add_rms_norm<T>, norm,
                     rows<const T>(call.inputs[1]), rows<T>(call.outputs[0]));
  });
}

Launch bind_backward(const BindCall& call, BindContext& context) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    RmsNormBackward<T> norm;
    norm.tokens = call.inputs[0].type.shape[0];
    norm.width = call.inputs[0].type.shape[1];
    norm.dy = rows<const T>(call.inputs[0]);
    norm.x = rows<const T>(call.inputs[1]);
    norm.weight = call.inputs[2].as<const float>();
    norm.weight_offset = static_cast<float>(call.attrs().real("offset"));
    norm.rstd = call.inputs[3].as<const float>();
    if (call.inputs.size() == 5) norm.d_residual = rows<const T>(call.inputs[4]);
    norm.dx = rows<T>(call.outputs[0]);
    norm.d_weight = call.outputs[1].as<float>();
    norm.workspace = reinterpret_cast<float*>(call.workspace);
    norm.tickets = context.tickets.take();
    return launch_on(context.device, "rms_norm_backward", launch_rms_norm_backward<T>, norm);
  });
}

// Rows of x and the like may be slices; weights and statistics are dense.
bool takes_input(const Call& call, int input, const Layout& layout) {
  return call.inputs[static_cast<size_t>(input)].shape == call.inputs[0].shape &&
         lies_in_rows(call, input, layout);
}
bool takes_output(const Call& call, int output, const Layout& layout) {
  return call.outputs[static_cast<size_t>(output)].shape == call.inputs[0].shape &&
         output_lies_in_rows(call, output, layout);
}

int64_t workspace_bytes(const Call& call) {
  return rms_norm_backward_workspace_bytes(call.inputs[0].shape[0], call.inputs[0].shape[1]);
}

}  // namespace

const CudaKernel& rms_norm_kernel() {
  static const CudaKernel kernel{.op = "rms_norm",
                                 .bind = bind,
                                 .takes_input = takes_input,
                                 .takes_output = takes_output,
                                 .in_place = true,
                                 .rounds = 2};
  return kernel;
}

const CudaKernel& add_rms_norm_kernel() {
  static const CudaKernel kernel{.op = "add_rms_norm",
                                 .bind = bind_add,
                                 .takes_input = takes_input,
                                 .takes_output = takes_output,
                                 .rounds = 2};
  return kernel;
}

const CudaKernel& rms_norm_backward_kernel() {
  static const CudaKernel kernel{.op = "rms_norm_backward",
                                 .bind = bind_backward,
                                 .takes_input = takes_input,
                                 .takes_output = takes_output,
                                 .workspace_bytes = workspace_bytes,
                                 .rounds = 6};
  return kernel;
}

}  // namespace ridge::backends::cuda
