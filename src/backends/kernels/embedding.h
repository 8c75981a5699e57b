// SPDX-License-Identifier: Apache-2.0
// Arguments of the embedding kernels: looks up rows of a table by id, and adds gradients to the
// rows. T and the table's type are float, uint16_t (bf16) or Float16.
#pragma once

#include <cstdint>

#include "backends/kernels/strided_rows.h"

namespace ridge::backends {

// y[n] = table[ids[n]].
template <typename Table, typename T>
struct Embedding {
  int64_t tokens = 0;              // N
  int64_t width = 0;               // D
  int64_t vocabulary = 0;          // V
  StridedRows<const Table> table;  // [V, D]
  const int32_t* ids = nullptr;    // [N]; -1 (padding) yields zeros
  StridedRows<T> y;                // [N, D]
};

// d_table[v] (+)= the sum of dy[n] over the tokens with id v.
template <typename T>
struct EmbeddingBackward {
  int64_t tokens = 0;            // N
  int64_t width = 0;             // D
  int64_t vocabulary = 0;        // V
  const int32_t* ids = nullptr;  // [N]
  StridedRows<const T> dy;       // [N, D]
  bool accumulate = false;       // add to d_table instead of overwriting all of it
  StridedRows<float> d_table;    // [V, D]
};

}  // namespace ridge::backends
