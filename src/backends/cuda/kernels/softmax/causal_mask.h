// SPDX-License-Identifier: Apache-2.0
// The causal or window mask on CUDA. backends/kernels/causal_mask.h has the definition.
#pragma once

#include "backends/cuda/kernels/gpu_runtime.h"
#include "backends/kernels/causal_mask.h"

namespace ridge::backends::cuda {

// One launch.
template <typename T>
cudaError_t launch_causal_mask(const CausalMask<T>& call, cudaStream_t stream);

}  // namespace ridge::backends::cuda
