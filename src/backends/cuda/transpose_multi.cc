// SPDX-License-Identifier: Apache-2.0
// Binding of transpose_multi.
#include "backends/cuda/kernels/copy/transpose_multi.h"

#include <fmt/format.h>

#include "backends/cuda/kernel_table.h"

namespace ridge::backends::cuda {
namespace {

Launch bind(const BindCall& call, BindContext& context) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    TransposeMulti<T> transposed;
    for (const Operand& matrix : call.inputs) {
      const auto i = static_cast<size_t>(transposed.count++);
      transposed.matrices[i] = {matrix.type.shape[0], matrix.type.shape[1], rows<const T>(matrix),
                                call.outputs[i].as<T>()};
    }
    return launch_on(context.device, "transpose_multi", launch_transpose_multi<T>, transposed);
  });
}

std::string unsupported(const Call& call) {
  if (call.inputs.size() > kMostTransposed)
    return fmt::format("the cuda backend transposes up to {} matrices at a time, not {}",
                       kMostTransposed, call.inputs.size());
  for (const Type& matrix : call.inputs)
    if (matrix.dtype != call.inputs[0].dtype || !is_float(matrix.dtype))
      return fmt::format(
          "the cuda backend transposes matrices of one type, f32 or bf16, not {} with {}",
          matrix.str(), call.inputs[0].str());
  return "";
}

}  // namespace

Kernel transpose_multi_kernel(BindContext& context) {
  return {.op = "transpose_multi",
          .bind = in_context(bind, context),
          .takes_input = lies_in_rows,
          .unsupported = unsupported};
}

}  // namespace ridge::backends::cuda
