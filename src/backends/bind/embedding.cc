// SPDX-License-Identifier: Apache-2.0
// Bindings of embedding, for tables in fp32 and bf16, and of its gradient.
#include "backends/bind/bindings.h"
#include "backends/row_layout.h"

namespace ridge::backends::bind {
namespace {

template <typename Table, typename T>
Embedding<Table, T> embedding_call(const BindCall& call) {
  const Shape& table = call.inputs[0].type.shape;
  Embedding<Table, T> e;
  e.tokens = call.inputs[1].type.shape[0];
  e.width = table[1];
  e.vocabulary = table[0];
  e.table = rows<const Table>(call.inputs[0]);
  e.ids = call.inputs[1].as<const int32_t>();
  e.y = rows<T>(call.outputs[0]);
  return e;
}

constexpr auto backward_call = []<typename T>(const BindCall& call) -> EmbeddingBackward<T> {
  const Shape& table = call.outputs[0].type.shape;
  EmbeddingBackward<T> e;
  e.tokens = call.inputs[0].type.shape[0];
  e.width = table[1];
  e.vocabulary = table[0];
  e.ids = call.inputs[0].as<const int32_t>();
  e.dy = rows<const T>(call.inputs[1]);
  e.accumulate = call.inputs.size() == 3;
  e.d_table = rows<float>(call.outputs[0]);
  return e;
};

bool takes_gradient(const Call& call, int input, const Layout& layout) {
  return input == 1 && lies_in_rows(call, input, layout);
}

}  // namespace

Kernel embedding(PairLaunchers<Embedding> launchers) {
  return {.op = "embedding",
          .bind =
              [launchers = std::move(launchers)](const BindCall& call) {
                return by_float_dtype(call.inputs[0].type.dtype, [&](auto table) {
                  return by_float_dtype(call.outputs[0].type.dtype, [&](auto element) {
                    return launchers(embedding_call<decltype(table), decltype(element)>(call),
                                     op_of(call));
                  });
                });
              },
          .takes_output = output_lies_in_rows};
}

Kernel embedding_backward(TypedLaunchers<EmbeddingBackward> launchers) {
  return {.op = "embedding_backward",
          .bind = bind_typed(std::move(launchers), backward_call, second_input_type),
          .takes_input = takes_gradient};
}

}  // namespace ridge::backends::bind
