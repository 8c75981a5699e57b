// SPDX-License-Identifier: Apache-2.0
// Arguments of the softmax and log_softmax kernels, over the last axis, and of their gradients.
// Attention that is not fused runs softmax; a loss that is not fused runs log_softmax. T is float,
// uint16_t (bf16) or Float16.
#pragma once

#include <cstdint>

#include "backends/kernels/strided_rows.h"

namespace ridge::backends {

// y = exp(x) / sum of exp(x), all 0 if x is -infinity in all columns; log_softmax: y = x - log(sum
// of exp(x)).
template <typename T>
struct Softmax {
  int64_t rows = 0;        // R
  int64_t columns = 0;     // C
  StridedRows<const T> x;  // [R, C]
  StridedRows<T> y;        // [R, C]; may be x
};

// dx = y (dy - sum over the row of y dy); log_softmax: dx = dy - exp(y) sum over the row of dy.
template <typename T>
struct SoftmaxBackward {
  int64_t rows = 0;         // R
  int64_t columns = 0;      // C
  StridedRows<const T> y;   // [R, C], the forward's output
  StridedRows<const T> dy;  // [R, C]
  StridedRows<T> dx;        // [R, C]; may be y or dy
};

}  // namespace ridge::backends
