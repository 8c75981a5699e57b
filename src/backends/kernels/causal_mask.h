// SPDX-License-Identifier: Apache-2.0
// What a causal_mask kernel is given: the causal or window mask on a matrix of scores, as an eager
// framework applies it, a pass of its own. T is float or uint16_t (bf16).
#pragma once

#include <cstdint>

#include "backends/kernels/strided_rows.h"

namespace ridge::backends {

template <typename T>
struct CausalMask {
  int64_t rows = 0;     // queries 0..columns-1 of one head after the other
  int64_t columns = 0;  // T keys
  int64_t window = 0;   // keys j <= i - window are hidden too; 0: none
  float value = 0;      // what hidden scores become
  StridedRows<const T> x;
  StridedRows<T> y;  // may be x
};

}  // namespace ridge::backends
