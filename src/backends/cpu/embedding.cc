// SPDX-License-Identifier: Apache-2.0
// Bindings of embedding and its gradient.
#include "backends/cpu/kernels/embedding.h"

#include "backends/cpu/cpu_kernel.h"
#include "base/error.h"

namespace ridge::backends::cpu {
namespace {

void check_ids(int64_t bad_row, int64_t vocabulary) {
  if (bad_row != kNoBadRow)
    throw runtime_error("[embedding] expected ids from -1 to {}, token {} has another", vocabulary - 1, bad_row);
}

template <typename Table, typename T>
Launch bind_typed(const BindCall& call) {
  const Shape& table = call.inputs[0].type.shape;
  Embedding<Table, T> e;
  e.tokens = call.inputs[1].type.shape[0];
  e.width = table[1];
  e.vocabulary = table[0];
  e.table = rows<const Table>(call.inputs[0]);
  e.ids = call.inputs[1].as<const int32_t>();
  e.y = rows<T>(call.outputs[0]);
  return [e] { check_ids(embedding(e), e.vocabulary); };
}

Launch bind(const BindCall& call) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto table) -> Launch {
    return by_dtype(call.outputs[0].type.dtype,
                    [&](auto element) -> Launch { return bind_typed<decltype(table), decltype(element)>(call); });
  });
}

Launch bind_backward(const BindCall& call) {
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
    return [e] { check_ids(embedding_backward(e), e.vocabulary); };
  });
}

bool takes_gradient(const Call& call, int input, const Layout& layout) {
  return input == 1 && lies_in_rows(call, input, layout);
}

}  // namespace

const CpuKernel& embedding_kernel() {
  static const CpuKernel kernel{.op = "embedding", .bind = bind, .takes_output = output_lies_in_rows};
  return kernel;
}

const CpuKernel& embedding_backward_kernel() {
  static const CpuKernel kernel{.op = "embedding_backward", .bind = bind_backward, .takes_input = takes_gradient};
  return kernel;
}

}  // namespace ridge::backends::cpu
