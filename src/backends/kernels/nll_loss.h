// SPDX-License-Identifier: Apache-2.0
// What an nll_loss kernel is given: the mean negative log-likelihood of
// labels, and its gradient, the second half of what an eager framework
// does for a loss, after log_softmax. T is float or uint16_t (bf16).
#pragma once

#include <cstdint>

#include "backends/kernels/strided_rows.h"

namespace ridge::backends {

template <typename T>
struct NllLoss {
  int64_t tokens = 0;               // N
  int64_t vocabulary = 0;           // V
  StridedRows<const T> log_p;       // [N, V]
  const int32_t* labels = nullptr;  // [N]; -1: the row is not counted
  float* loss = nullptr;            // one: mean over counted rows of -log_p[label]; 0 if none is
  int32_t* count = nullptr;         // one: counted rows
};

template <typename T>
struct NllLossBackward {
  int64_t tokens = 0;               // N
  int64_t vocabulary = 0;           // V
  const int32_t* labels = nullptr;  // [N]
  const float* d_loss = nullptr;    // one
  const int32_t* count = nullptr;   // one, from the forward
  StridedRows<T> d_log_p;           // [N, V]: -d_loss / count at the label, 0 elsewhere
};

}  // namespace ridge::backends
