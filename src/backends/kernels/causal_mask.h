// SPDX-License-Identifier: Apache-2.0
// Arguments of the causal_mask kernel: applies a causal or window mask to a matrix of scores in a
// separate kernel, as an eager framework does, or the mask of documents that share a
// row. T is float, uint16_t (bf16) or Float16.
#pragma once

#include <cstdint>

#include "backends/kernels/strided_rows.h"

namespace ridge::backends {

template <typename T>
struct CausalMask {
  int64_t rows = 0;     // queries 0..columns-1 of each head, head after head
  int64_t columns = 0;  // keys of one sequence
  int64_t window = 0;   // keys j <= i - window are masked too; 0: no window
  float value = 0;      // written to masked scores
  StridedRows<const T> x;
  StridedRows<T> y;  // may be x
  // [B, columns]: each query's position in its document, whose keys alone are visible; null: all.
  const int32_t* positions = nullptr;
  int64_t rows_per_sequence = 1;  // rows / B
};

}  // namespace ridge::backends
