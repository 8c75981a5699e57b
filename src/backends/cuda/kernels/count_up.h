// SPDX-License-Identifier: Apache-2.0
// A kernel that counts what has ended on its stream, for the host to see.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/gpu_runtime.h"

namespace ridge::backends::cuda {

// Adds `ended` to *count and writes the sum to *seen, a word of pinned host memory. Such kernels
// run one after another.
cudaError_t launch_count_up(int64_t* count, int64_t* seen, int64_t ended, cudaStream_t stream);

}  // namespace ridge::backends::cuda
