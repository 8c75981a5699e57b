// SPDX-License-Identifier: Apache-2.0
// What a log_softmax kernel is given: over the last axis, and its gradient, the first half of what
// an eager framework does for a loss. T is float or uint16_t (bf16).
#pragma once

#include <cstdint>

#include "backends/kernels/strided_rows.h"

namespace ridge::backends {

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
