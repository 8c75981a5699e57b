// SPDX-License-Identifier: Apache-2.0
// Fused softmax and cross-entropy, and its gradient, on CUDA. backends/kernels/losses.h has the
// definitions.
#pragma once

#include "backends/cuda/kernels/gpu_runtime.h"
#include "backends/cuda/kernels/ticketed.h"
#include "backends/cuda/kernels/watched.h"
#include "backends/kernels/losses.h"

namespace ridge::backends::cuda {

// The initial contents of the workspace are ignored.
int64_t softmax_cross_entropy_workspace_bytes(int64_t tokens);

// Labels are checked per row. A part of the vocabulary has lse and at_label alone. Sums the losses
// of the rows in double in a fixed order. One launch, which needs kTicketWords tickets.
template <typename T>
cudaError_t launch_softmax_cross_entropy(const Ticketed<Watched<SoftmaxCrossEntropy<T>>>& call,
                                         cudaStream_t stream);

// Labels are checked per row. One launch.
template <typename T>
cudaError_t launch_softmax_cross_entropy_backward(
    const Watched<SoftmaxCrossEntropyBackward<T>>& call,
    cudaStream_t stream);

// Sums in double in a fixed order. One launch.
cudaError_t launch_cross_entropy_of_parts(const CrossEntropyOfParts& call, cudaStream_t stream);

}  // namespace ridge::backends::cuda
