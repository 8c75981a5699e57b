// SPDX-License-Identifier: Apache-2.0
// Blocks that finish a launch's work when all others have left their part: which block that is
// changes from run to run, what it computes must not depend on it.
#pragma once

#include "backends/cuda/kernels/thread_groups.cuh"

namespace ridge::backends::cuda {

// ticket: a word, zero; the last block to come makes it zero again. One word takes an arrival some
// 2 ns after the other: few large blocks come sooner than many small ones.

// By one thread of each of the grid's `blocks`: how many came before, 0 to blocks - 1.
__device__ __forceinline__ int come(int32_t* ticket, int blocks) {
  return static_cast<int>(
      atomicInc(reinterpret_cast<unsigned*>(ticket), static_cast<unsigned>(blocks - 1)));
}

// By one thread of each of the grid's `blocks`, which alone wrote what others are to read: whether
// all have come, and what they wrote before can be read.
__device__ __forceinline__ bool comes_last(int32_t* ticket, int blocks) {
  fence_device();
  const bool is_last = come(ticket, blocks) == blocks - 1;
  if (is_last) fence_device();
  return is_last;
}

// By every thread of each of the grid's `blocks`. To the last `count` blocks that come a number of
// their own, 0 to count - 1, once all have come and what they wrote before can be read; to the
// others -1, at once. The few that wait hold no block up that has yet to come.
__device__ __forceinline__ int join_last_blocks(int32_t* ticket, int blocks, int count) {
  __shared__ int number;
  __syncthreads();
  if (threadIdx.x == 0) {
    fence_device();  // for the whole block, whose writes the barrier put before it
    number = come(ticket, blocks) - (blocks - count);
    if (number >= 0) {
      if (number < count - 1) {
        while (*static_cast<volatile int32_t*>(ticket) != 0) {
        }
      }
      fence_device();
    }
  }
  __syncthreads();
  return number < 0 ? -1 : number;
}

}  // namespace ridge::backends::cuda
