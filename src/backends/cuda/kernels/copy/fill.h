// SPDX-License-Identifier: Apache-2.0
// Sets every element of a strided matrix to one value, on CUDA.
#pragma once

#include "backends/cuda/kernels/gpu_runtime.h"
#include "backends/kernels/fill.h"

namespace ridge::backends::cuda {

// One launch.
template <typename T>
cudaError_t launch_fill(const Fill<T>& call, cudaStream_t stream);

}  // namespace ridge::backends::cuda
