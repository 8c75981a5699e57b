// SPDX-License-Identifier: Apache-2.0
// The kernels' calls of embedding and its gradient, filled from a node's operands.
#pragma once

#include "backends/kernels/embedding.h"
#include "backends/row_layout.h"

namespace ridge::backends {

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

template <typename T>
EmbeddingBackward<T> embedding_backward_call(const BindCall& call) {
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
}

// takes_input of the gradient.
inline bool rows_gradient_lies_in_rows(const Call& call, int input, const Layout& layout) {
  return input == 1 && lies_in_rows(call, input, layout);
}

}  // namespace ridge::backends
