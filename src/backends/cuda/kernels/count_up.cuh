// SPDX-License-Identifier: Apache-2.0
// Counting at the end of a kernel.
#pragma once

#include "backends/cuda/kernels/count_up.h"
#include "backends/cuda/kernels/gpu_dialect.cuh"

namespace ridge::backends::cuda {

// Called by one thread of each block when the block's part of the collective has ended. The host's
// word is only written, and the write over the bus is not waited for.
__device__ __forceinline__ void count_up(const CollectiveCount& count) {
  if (count.ended == 0) return;
  if (gridDim.x > 1 && atomicInc(count.blocks, gridDim.x - 1) != gridDim.x - 1) return;
  *static_cast<volatile int64_t*>(count.seen) = *count.count += count.ended;
}

}  // namespace ridge::backends::cuda
