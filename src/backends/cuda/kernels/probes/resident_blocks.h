// SPDX-License-Identifier: Apache-2.0
// The number of blocks of a kernel that the device runs at a time: the grid size of kernels whose
// blocks iterate over rows. No result may depend on it.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/gpu_runtime.h"

namespace ridge::backends::cuda {

// Returns at least 1, even if a device query fails (the launch then reports why). Assumes that all
// devices of a process are alike.
template <typename Kernel>
int64_t resident_blocks(Kernel* kernel, int threads) {
  int device = 0, multiprocessors = 0, blocks = 0;
  const bool answered =
      cudaGetDevice(&device) == cudaSuccess &&
      cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device) ==
          cudaSuccess &&
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, reinterpret_cast<const void*>(kernel),
                                                    threads, 0) == cudaSuccess;
  const int64_t all = static_cast<int64_t>(multiprocessors) * blocks;
  return answered && all > 0 ? all : 1;
}

}  // namespace ridge::backends::cuda
