// SPDX-License-Identifier: Apache-2.0
// The mean negative log-likelihood of labels and its gradient on CUDA. backends/kernels/losses.h
// has the definitions.
#pragma once

#include "backends/cuda/kernels/gpu_runtime.h"
#include "backends/cuda/kernels/watched.h"
#include "backends/kernels/losses.h"

namespace ridge::backends::cuda {

// Labels are checked per row. Sums in double in a fixed order. One launch.
template <typename T>
cudaError_t launch_nll_loss(const Watched<NllLoss<T>>& call, cudaStream_t stream);

// Labels are checked per row. One launch.
template <typename T>
cudaError_t launch_nll_loss_backward(const Watched<NllLossBackward<T>>& call, cudaStream_t stream);

}  // namespace ridge::backends::cuda
