// SPDX-License-Identifier: Apache-2.0
// Looks rows of a table up by id, and adds gradients of the rows back. T and the table's type are
// float or uint16_t (bf16).
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/rows.h"

namespace ridge::backends::cpu {

template <typename Table, typename T>
struct Embedding {
  int64_t tokens = 0;            // N
  int64_t width = 0;             // D
  int64_t vocabulary = 0;        // V
  Rows<const Table> table;       // [V, D]
  const int32_t* ids = nullptr;  // [N]; -1 (padding) gives zeros
  float scale = 1.0f;            // Gemma: sqrt(D)
  Rows<T> y;                     // [N, D]
};

// y[n] = scale table[ids[n]]. Returns kNoBadRow, or the first token whose id is outside [-1, V);
// then nothing is written.
template <typename Table, typename T>
int64_t embedding(const Embedding<Table, T>& call);

template <typename T>
struct EmbeddingBackward {
  int64_t tokens = 0;            // N
  int64_t width = 0;             // D
  int64_t vocabulary = 0;        // V
  const int32_t* ids = nullptr;  // [N]
  Rows<const T> dy;              // [N, D]
  float scale = 1.0f;
  bool accumulate = false;  // add to d_table instead of overwriting all of it
  Rows<float> d_table;      // [V, D]
};

// d_table[v] (+)= scale sum of dy[n] over the tokens with id v, in token order: the same bits for
// any thread count. Returns as above.
template <typename T>
int64_t embedding_backward(const EmbeddingBackward<T>& call);

}  // namespace ridge::backends::cpu
