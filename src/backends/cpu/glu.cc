// SPDX-License-Identifier: Apache-2.0
// Bindings of glu and glu_backward.
#include "backends/cpu/kernels/glu.h"

#include "backends/cpu/cpu_kernel.h"

namespace ridge::backends::cpu {
namespace {

GluActivation activation(const Attrs& attrs) {
  return attrs.text("activation") == "silu" ? GluActivation::kSilu : GluActivation::kGeluTanh;
}

Launch bind(const BindCall& call) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    const Shape& shape = call.inputs[0].type.shape;
    Glu<T> gate{shape[0],
                shape[1],
                activation(call.attrs()),
                rows<const T>(call.inputs[0]),
                rows<const T>(call.inputs[1]),
                rows<T>(call.outputs[0])};
    return [gate] { glu(gate); };
  });
}

Launch bind_backward(const BindCall& call) {
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
    return [gate] { glu_backward(gate); };
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
