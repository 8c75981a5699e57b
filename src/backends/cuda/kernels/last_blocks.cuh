// SPDX-License-Identifier: Apache-2.0
// Blocks that finish a launch's work when all others have left their part: which block that is
// changes from run to run, what it computes must not depend on it.
#pragma once

#include "backends/cuda/kernels/gpu_dialect.cuh"

namespace ridge::backends::cuda {

// By every thread of each of the grid's `blocks`. To the last `count` blocks that come a number of
// their own, 0 to count - 1, once all have come and what they wrote before can be read; to the
// others -1, at once. The few that wait hold no block up that has yet to come. tickets: two words,
// zero; they are zero again when leave_last_blocks has been called.
__device__ __forceinline__ int join_last_blocks(int32_t* tickets, int blocks, int count) {
  __shared__ int number;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();  // for the whole block, whose writes the barrier put before it
    number = atomicAdd(tickets, 1) - (blocks - count);
    if (number >= 0) {
      while (*static_cast<volatile int32_t*>(tickets) < blocks) {
      }
      __threadfence();
    }
  }
  __syncthreads();
  return number < 0 ? -1 : number;
}

__device__ __forceinline__ void leave_last_blocks(int32_t* tickets, int count) {
  if (threadIdx.x != 0 || atomicAdd(tickets + 1, 1) != count - 1) return;
  tickets[0] = 0;
  tickets[1] = 0;
}

}  // namespace ridge::backends::cuda
