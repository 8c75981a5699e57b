// SPDX-License-Identifier: Apache-2.0
// The mean negative log-likelihood of labels and its gradient on CUDA: the second half of what an
// eager framework does for a loss, after log_softmax. T is float or uint16_t (bf16).
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/gpu_runtime.h"
#include "backends/cuda/kernels/rows.h"

namespace ridge::backends::cuda {

template <typename T>
struct NllLoss {
  int64_t tokens = 0;               // N
  int64_t vocabulary = 0;           // V
  Rows<const T> log_p;              // [N, V]
  const int32_t* labels = nullptr;  // [N]; -1, and any outside [0, V): the row is not counted
  float* loss = nullptr;            // one: mean over counted rows of -log_p[label]; 0 if none is
  int32_t* count = nullptr;         // one: counted rows
  int32_t* bad_row = nullptr;  // one, or null (rows.h): the first row with a label outside [-1, V)
};

// Summed in double in a fixed order. One launch.
template <typename T>
cudaError_t launch_nll_loss(const NllLoss<T>& call, cudaStream_t stream);

template <typename T>
struct NllLossBackward {
  int64_t tokens = 0;               // N
  int64_t vocabulary = 0;           // V
  const int32_t* labels = nullptr;  // [N]
  const float* d_loss = nullptr;    // one
  const int32_t* count = nullptr;   // one, from the forward
  Rows<T> d_log_p;                  // [N, V]: -d_loss / count at the label, 0 elsewhere
  int32_t* bad_row = nullptr;       // as above
};

// One launch.
template <typename T>
cudaError_t launch_nll_loss_backward(const NllLossBackward<T>& call, cudaStream_t stream);

}  // namespace ridge::backends::cuda
