// SPDX-License-Identifier: Apache-2.0
// Bindings of what only moves bytes: copy, concat (the parts not seated in the output) and fill.
#include "backends/cuda/kernels/copy/copy.h"

#include "backends/copy_call.h"
#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/copy/fill.h"
#include "backends/cuda/strided_copy.h"
#include "base/error.h"

namespace ridge::backends::cuda {
namespace {

bool any_layout(const Call&, int, const Layout&) { return true; }

Launch bind_copy_node(const BindCall& call, BindContext& context) {
  return bind_copy(call.inputs[0], call.outputs[0], false, "copy", context.device);
}

Launch bind_concat(const BindCall& call, BindContext& context) {
  return bind_seats(call, [&](const Operand& part, const Operand& seat) {
    return bind_copy(part, seat, false, "concat", context.device);
  });
}

int concat_launches(const Call& call, bool) { return static_cast<int>(call.inputs.size()); }

template <typename T>
Launch bind_fill_of(const BindCall& call, BindContext& context) {
  const Operand& out = call.outputs[0];
  int64_t elements = out.type.shape.elements();
  return launch_on(context.device, "fill", launch_fill<T>,
                   Fill<T>{1, elements, {out.as<T>(), elements}, call.attrs().real("value")});
}

Launch bind_fill(const BindCall& call, BindContext& context) {
  DType dtype = call.outputs[0].type.dtype;
  if (dtype == DType::kI32) return bind_fill_of<int32_t>(call, context);
  return by_dtype(dtype, [&](auto element) -> Launch {
    return bind_fill_of<decltype(element)>(call, context);
  });
}

}  // namespace

Launch bind_copy(const Operand& from,
                 const Operand& to,
                 bool accumulate,
                 const char* op,
                 Device& device) {
  return by_dtype(moved_as(from.type.dtype), [&](auto source) -> Launch {
    return by_dtype(moved_as(to.type.dtype), [&](auto target) -> Launch {
      using From = decltype(source);
      using To = decltype(target);
      return launch_on(device, op, launch_copy<From, To>,
                       copy_call<From, To>(from, to, accumulate));
    });
  });
}

const CudaKernel& copy_kernel() {
  static const CudaKernel kernel{
      .op = "copy", .bind = bind_copy_node, .takes_input = any_layout, .takes_output = any_layout};
  return kernel;
}

const CudaKernel& concat_kernel() {
  static const CudaKernel kernel{.op = "concat",
                                 .bind = bind_concat,
                                 .takes_input = any_layout,
                                 .takes_output = any_layout,
                                 .launches = concat_launches};
  return kernel;
}

const CudaKernel& fill_kernel() {
  static const CudaKernel kernel{.op = "fill", .bind = bind_fill};
  return kernel;
}

}  // namespace ridge::backends::cuda
