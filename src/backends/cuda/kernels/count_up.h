// SPDX-License-Identifier: Apache-2.0
// How the device counts collectives that have ended on its stream, for the host to see.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/gpu_runtime.h"

namespace ridge::backends::cuda {

// Kernels that count up run one after another.
struct CollectiveCount {
  int64_t* count = nullptr;    // in the device's memory
  int64_t* seen = nullptr;     // a word of pinned host memory, in which the count is written
  uint32_t* blocks = nullptr;  // the kernel's blocks that have ended; 0 before and after it
  int64_t ended = 0;           // collectives that it counts; 0: it does not count
};

// A kernel that does nothing else.
cudaError_t launch_count_up(const CollectiveCount& count, cudaStream_t stream);

}  // namespace ridge::backends::cuda
