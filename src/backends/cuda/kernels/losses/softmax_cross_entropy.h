// SPDX-License-Identifier: Apache-2.0
// Softmax and cross-entropy in one, and its gradient, on CUDA;
// backends/kernels/softmax_cross_entropy.h says what they compute.
#pragma once

#include "backends/cuda/kernels/gpu_runtime.h"
#include "backends/cuda/kernels/ticketed.h"
#include "backends/cuda/kernels/watched.h"
#include "backends/kernels/softmax_cross_entropy.h"

namespace ridge::backends::cuda {

// The workspace's contents are ignored.
int64_t softmax_cross_entropy_workspace_bytes(int64_t tokens);

// Labels are watched by row. The rows' losses are summed in double in a fixed order. One launch,
// which takes kTicketWords tickets.
template <typename T>
cudaError_t launch_softmax_cross_entropy(const Ticketed<Watched<SoftmaxCrossEntropy<T>>>& call,
                                         cudaStream_t stream);

// Labels are watched by row. One launch.
template <typename T>
cudaError_t launch_softmax_cross_entropy_backward(
    const Watched<SoftmaxCrossEntropyBackward<T>>& call,
    cudaStream_t stream);

}  // namespace ridge::backends::cuda
