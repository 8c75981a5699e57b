// SPDX-License-Identifier: Apache-2.0
// What a softmax kernel is given: softmax over the last axis with
// an optional causal or window mask, and its gradient. Attention is
// made of it where it is not fused. T is float or uint16_t (bf16).
#pragma once

#include <cstdint>

#include "backends/kernels/strided_rows.h"

namespace ridge::backends {

// Which columns (keys) a row (a query) sees, by position: rows are
// queries 0..queries-1 of one sequence and head after the other,
// row r at position offset + r % queries, column c at position c.
struct SoftmaxMask {
  int64_t queries = 0;  // T of the rows; 0: every column is seen and the rest has no meaning
  int64_t offset = 0;   // position of query 0
  int64_t window = 0;   // how many positions back to see, its own included; 0: all (causal)
};

// y = exp(scale x) / sum of exp(scale x) over the columns seen, 0 in the others; a row that sees
// nothing, or only -infinity, is all 0.
template <typename T>
struct Softmax {
  int64_t rows = 0;     // R
  int64_t columns = 0;  // C
  float scale = 1.0f;   // > 0
  SoftmaxMask mask;
  StridedRows<const T> x;  // [R, C]; columns that are not seen are not used
  StridedRows<T> y;        // [R, C]; may be x
};

// dx = scale y (dy - sum over the row of y dy), 0 in columns that are not seen.
template <typename T>
struct SoftmaxBackward {
  int64_t rows = 0;     // R
  int64_t columns = 0;  // C
  float scale = 1.0f;
  SoftmaxMask mask;
  StridedRows<const T> y;   // [R, C], the forward's output
  StridedRows<const T> dy;  // [R, C]; columns that are not seen are not used
  StridedRows<T> dx;        // [R, C]; may be y or dy
};

}  // namespace ridge::backends
