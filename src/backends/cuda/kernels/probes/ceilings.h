// SPDX-License-Identifier: Apache-2.0
// Kernels that do one thing as fast as a GPU can, for measuring what it reaches. No op runs them.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/gpu_runtime.h"

namespace ridge::backends::cuda {

// Walks `bytes` (a multiple of 16) again and again, `passes` times in one launch.
struct MemoryWalk {
  const void* from = nullptr;
  void* to = nullptr;
  int64_t bytes = 0;
  int passes = 1;
};
cudaError_t launch_walk_read(const MemoryWalk& walk,
                             cudaStream_t stream);  // reads `from`; `to` gets next to nothing
cudaError_t launch_walk_copy(
    const MemoryWalk& walk,
    cudaStream_t stream);  // the first half of the bytes from `from` to `to`

// Chains of operations in registers; `sink` is one float that is hardly ever written. The result
// says how many operations a launch makes.
int64_t chain_operations(int multiprocessors, int iterations);
cudaError_t launch_multiply_adds(float* sink,
                                 int multiprocessors,
                                 int iterations,
                                 cudaStream_t stream);
cudaError_t launch_exponentials(float* sink,
                                int multiprocessors,
                                int iterations,
                                cudaStream_t stream);

// `trips` loads of one thread, each from where the one before sends it, far apart in `bytes` bytes;
// *place, any number at first, is where it goes on.
cudaError_t launch_follow(const void* from,
                          int64_t bytes,
                          int trips,
                          uint32_t* place,
                          cudaStream_t stream);

cudaError_t launch_nothing(cudaStream_t stream);

}  // namespace ridge::backends::cuda
