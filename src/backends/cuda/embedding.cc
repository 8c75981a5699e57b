// SPDX-License-Identifier: Apache-2.0
// Bindings of embedding and its gradient.
#include "backends/cuda/kernels/embedding/embedding.h"

#include "backends/cuda/cuda_kernel.h"
#include "backends/embedding_call.h"
#include "base/error.h"

namespace ridge::backends::cuda {
namespace {

template <typename Table, typename T>
Launch bind_typed(const BindCall& call, BindContext& context) {
  auto e = embedding_call<Table, T>(call);
  int32_t* bad_row = context.faults.watch("embedding", "ids", "token", e.vocabulary);
  return launch_on(context.device, "embedding", launch_embedding<Table, T>,
                   Watched<Embedding<Table, T>>{e, bad_row});
}

Launch bind(const BindCall& call, BindContext& context) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto table) -> Launch {
    return by_dtype(call.outputs[0].type.dtype, [&](auto element) -> Launch {
      return bind_typed<decltype(table), decltype(element)>(call, context);
    });
  });
}

Launch bind_backward(const BindCall& call, BindContext& context) {
  return by_dtype(call.inputs[1].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    return launch_on(context.device, "embedding_backward", launch_embedding_backward<T>,
                     embedding_backward_call<T>(call));
  });
}

}  // namespace

const CudaKernel& embedding_kernel() {
  static const CudaKernel kernel{
      .op = "embedding", .bind = bind, .takes_output = output_lies_in_rows, .rounds = 2};
  return kernel;
}

const CudaKernel& embedding_backward_kernel() {
  static const CudaKernel kernel{.op = "embedding_backward",
                                 .bind = bind_backward,
                                 .takes_input = rows_gradient_lies_in_rows,
                                 .rounds = 5};
  return kernel;
}

}  // namespace ridge::backends::cuda
