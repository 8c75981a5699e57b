// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding and its table on CUDA. backends/kernels/rope.h has the definitions.
#pragma once

#include "backends/cuda/kernels/gpu_runtime.h"
#include "backends/kernels/rope.h"

namespace ridge::backends::cuda {

// Returns cudaErrorInvalidValue for an odd head size. One launch; none if x is y and no head is
// rotated.
template <typename T>
cudaError_t launch_rope(const Rope<T>& call, cudaStream_t stream);

inline constexpr int64_t kRopeMaxHeadSize = 512;

// The head size must be at most kRopeMaxHeadSize. One launch.
cudaError_t launch_rope_table(const RopeTable& call, cudaStream_t stream);

}  // namespace ridge::backends::cuda
