// SPDX-License-Identifier: Apache-2.0
// A kernel that holds its stream until the host releases it.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/gpu_runtime.h"

namespace ridge::backends::cuda {

// Waits until *gate, a word of pinned host memory, is not 0.
cudaError_t launch_hold(const int32_t* gate, cudaStream_t stream);

}  // namespace ridge::backends::cuda
