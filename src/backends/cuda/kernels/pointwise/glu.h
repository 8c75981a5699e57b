// SPDX-License-Identifier: Apache-2.0
// The gate of a gated feed-forward layer and its gradient on CUDA. backends/kernels/glu.h has the
// definitions.
#pragma once

#include "backends/cuda/kernels/gpu_runtime.h"
#include "backends/kernels/glu.h"

namespace ridge::backends::cuda {

// One launch.
template <typename T>
cudaError_t launch_glu(const Glu<T>& call, cudaStream_t stream);

// One launch.
template <typename T>
cudaError_t launch_glu_backward(const GluBackward<T>& call, cudaStream_t stream);

}  // namespace ridge::backends::cuda
