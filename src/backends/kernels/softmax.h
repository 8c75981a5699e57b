// SPDX-License-Identifier: Apache-2.0
// Arguments of the softmax kernels: softmax over the last axis with an optional causal or window
// mask, log_softmax, and their gradients. Attention that is not fused runs softmax; a loss that is
// not fused runs log_softmax. T is float, uint16_t (bf16) or Float16.
#pragma once

#include <cstdint>

#include "backends/kernels/strided_rows.h"

namespace ridge::backends {

// Which columns (keys) a row (a query) attends to, by position. Rows are queries 0..queries-1 of
// each sequence and head, one after the other. Row r is at position offset + r % queries, column c
// at position c.
struct SoftmaxMask {
  int64_t queries = 0;  // per sequence and head; 0: no mask, the other fields are ignored
  int64_t offset = 0;   // position of query 0
  int64_t window = 0;   // how many positions, its own included, to attend to; 0: all (causal)
};

// y = exp(scale x) / sum of exp(scale x) over unmasked columns, 0 in masked columns. A row whose
// columns are all masked, or all -infinity, is all 0.
template <typename T>
struct Softmax {
  int64_t rows = 0;     // R
  int64_t columns = 0;  // C
  float scale = 1.0f;   // > 0
  SoftmaxMask mask;
  StridedRows<const T> x;  // [R, C]; masked columns are not used
  StridedRows<T> y;        // [R, C]; may be x
};

// dx = scale y (dy - sum over the row of y dy), 0 in masked columns.
template <typename T>
struct SoftmaxBackward {
  int64_t rows = 0;     // R
  int64_t columns = 0;  // C
  float scale = 1.0f;
  SoftmaxMask mask;
  StridedRows<const T> y;   // [R, C], the forward's output
  StridedRows<const T> dy;  // [R, C]; masked columns are not used
  StridedRows<T> dx;        // [R, C]; may be y or dy
};

// y = x - log(sum of exp(x)).
template <typename T>
struct LogSoftmax {
  int64_t rows = 0;        // R
  int64_t columns = 0;     // C
  StridedRows<const T> x;  // [R, C]
  StridedRows<T> y;        // [R, C]; may be x
};

// dx = dy - exp(y) sum over the row of dy.
template <typename T>
struct LogSoftmaxBackward {
  int64_t rows = 0;         // R
  int64_t columns = 0;      // C
  StridedRows<const T> y;   // [R, C], the forward's output
  StridedRows<const T> dy;  // [R, C]
  StridedRows<T> dx;        // [R, C]; may be y or dy
};

}  // namespace ridge::backends
