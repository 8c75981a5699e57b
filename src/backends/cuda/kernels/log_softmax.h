// SPDX-License-Identifier: Apache-2.0
// log_softmax over the last axis and its gradient on CUDA: the first half of what an eager
// framework does for a loss. T is float or uint16_t (bf16).
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/gpu_runtime.h"
#include "backends/cuda/kernels/rows.h"

namespace ridge::backends::cuda {

template <typename T>
struct LogSoftmax {
  int64_t rows = 0;     // R
  int64_t columns = 0;  // C
  Rows<const T> x;      // [R, C]
  Rows<T> y;            // [R, C]; may be x
};

// y = x - log(sum of exp(x)). One launch.
template <typename T>
cudaError_t launch_log_softmax(const LogSoftmax<T>& call, cudaStream_t stream);

template <typename T>
struct LogSoftmaxBackward {
  int64_t rows = 0;     // R
  int64_t columns = 0;  // C
  Rows<const T> y;      // [R, C], the forward's output
  Rows<const T> dy;     // [R, C]
  Rows<T> dx;           // [R, C]; may be y or dy
};

// dx = dy - exp(y) sum over the row of dy. One launch.
template <typename T>
cudaError_t launch_log_softmax_backward(const LogSoftmaxBackward<T>& call, cudaStream_t stream);

}  // namespace ridge::backends::cuda
