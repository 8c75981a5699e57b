// SPDX-License-Identifier: Apache-2.0
// Bindings of embedding and its gradient.
#include "backends/cuda/kernels/embedding.h"

#include "backends/cuda/cuda_kernel.h"
#include "base/error.h"

namespace ridge::backends::cuda {
namespace {

template <typename Table, typename T>
Launch bind_typed(const BindCall& call, BindContext& context) {
  const Shape& table = call.inputs[0].type.shape;
  Embedding<Table, T> e;
  e.tokens = call.inputs[1].type.shape[0];
  e.width = table[1];
  e.vocabulary = table[0];
  e.table = rows<const Table>(call.inputs[0]);
  e.ids = call.inputs[1].as<const int32_t>();
  e.y = rows<T>(call.outputs[0]);
  e.bad_row = context.faults.watch("embedding", "ids", "token", e.vocabulary);
  return launch_on(context.device, "embedding", launch_embedding<Table, T>, e);
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
    const Shape& table = call.outputs[0].type.shape;
    EmbeddingBackward<T> e;
    e.tokens = call.inputs[0].type.shape[0];
    e.width = table[1];
    e.vocabulary = table[0];
    e.ids = call.inputs[0].as<const int32_t>();
    e.dy = rows<const T>(call.inputs[1]);
    e.accumulate = call.inputs.size() == 3;
    e.d_table = rows<float>(call.outputs[0]);
    return launch_on(context.device, "embedding_backward", launch_embedding_backward<T>, e);
  });
}

bool takes_gradient(const Call& call, int input, const Layout& layout) {
  return input == 1 && lies_in_rows(call, input, layout);
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
                                 .takes_input = takes_gradient,
                                 .rounds = 5};
  return kernel;
}

}  // namespace ridge::backends::cuda
