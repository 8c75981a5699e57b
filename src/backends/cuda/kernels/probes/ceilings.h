// SPDX-License-Identifier: Apache-2.0
// Kernels that do one thing as fast as a GPU can, to measure its ceilings. No op runs them.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/gpu_runtime.h"

namespace ridge::backends::cuda {

// Sweeps `bytes` (a multiple of 16) `passes` times in one launch.
struct MemorySweep {
  const void* from = nullptr;
  void* to = nullptr;
  int64_t bytes = 0;
  int passes = 1;
};
// Reads `from`; writes almost nothing to `to`.
cudaError_t launch_sweep_read(const MemorySweep& sweep, cudaStream_t stream);
// Copies the first half of the bytes from `from` to `to`.
cudaError_t launch_sweep_copy(const MemorySweep& sweep, cudaStream_t stream);

// Chains of operations in registers; `sink` is one float that is almost never written.
// chain_operations returns the number of operations in a launch.
int64_t chain_operations(int multiprocessors, int iterations);
cudaError_t launch_multiply_adds(float* sink,
                                 int multiprocessors,
                                 int iterations,
                                 cudaStream_t stream);
cudaError_t launch_exponentials(float* sink,
                                int multiprocessors,
                                int iterations,
                                cudaStream_t stream);

// `trips` dependent loads by one thread: each load's address depends on the previous value, and the
// addresses are far apart in `bytes` bytes. *place, initially any number, is the position from
// which the next launch continues.
cudaError_t launch_follow(const void* from,
                          int64_t bytes,
                          int trips,
                          uint32_t* place,
                          cudaStream_t stream);

cudaError_t launch_nothing(cudaStream_t stream);

}  // namespace ridge::backends::cuda
