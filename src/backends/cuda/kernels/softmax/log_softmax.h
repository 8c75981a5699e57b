// SPDX-License-Identifier: Apache-2.0
// log_softmax and its gradient on CUDA. backends/kernels/softmax.h has the definitions.
#pragma once

#include "backends/cuda/kernels/gpu_runtime.h"
#include "backends/kernels/softmax.h"

namespace ridge::backends::cuda {

// One launch.
template <typename T>
cudaError_t launch_log_softmax(const Softmax<T>& call, cudaStream_t stream);

// One launch.
template <typename T>
cudaError_t launch_log_softmax_backward(const SoftmaxBackward<T>& call, cudaStream_t stream);

}  // namespace ridge::backends::cuda
