// SPDX-License-Identifier: Apache-2.0
// Softmax and cross-entropy in one on CUDA: the loss from logits without writing probabilities, and
// its gradient. T is float or uint16_t (bf16). log_softmax and nll_loss are the same in two steps.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/gpu_runtime.h"
#include "backends/cuda/kernels/rows.h"

namespace ridge::backends::cuda {

template <typename T>
struct SoftmaxCrossEntropy {
  int64_t tokens = 0;               // N
  int64_t vocabulary = 0;           // V
  Rows<const T> logits;             // [N, V]
  const int32_t* labels = nullptr;  // [N]; -1, and any outside [0, V): the row is not counted
  float* lse = nullptr;             // [N], log of the sum of exp(logits), of rows not counted too
  float* loss = nullptr;        // one: mean over counted rows of lse - logits[label]; 0 if none is
  int32_t* count = nullptr;     // one: counted rows
  double* workspace = nullptr;  // softmax_cross_entropy_workspace_bytes; contents ignored
  int32_t* bad_row = nullptr;   // one, or null (rows.h): the first row with a label outside [-1, V)
};

int64_t softmax_cross_entropy_workspace_bytes(int64_t tokens);

// The rows' losses are summed in double in a fixed order. Two launches: rows, then their mean.
inline constexpr int kSoftmaxCrossEntropyLaunches = 2;
template <typename T>
cudaError_t launch_softmax_cross_entropy(const SoftmaxCrossEntropy<T>& call, cudaStream_t stream);

template <typename T>
struct SoftmaxCrossEntropyBackward {
  int64_t tokens = 0;               // N
  int64_t vocabulary = 0;           // V
  Rows<const T> logits;             // [N, V]
  const int32_t* labels = nullptr;  // [N]
  const float* lse = nullptr;       // [N], from the forward
  const float* d_loss = nullptr;    // one
  const int32_t* count = nullptr;   // one, from the forward
  Rows<T> d_logits;                 // [N, V]; may be logits
  int32_t* bad_row = nullptr;       // as above
};

// d_logits = (exp(logits - lse) - [column is label]) d_loss / count, 0 in rows not counted. One
// launch.
template <typename T>
cudaError_t launch_softmax_cross_entropy_backward(const SoftmaxCrossEntropyBackward<T>& call,
                                                  cudaStream_t stream);

}  // namespace ridge::backends::cuda
