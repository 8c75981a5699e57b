// SPDX-License-Identifier: Apache-2.0
// Lets the last blocks of a launch finish its work when all others have written their part. Which
// blocks are last differs between runs, so the results must not depend on it.
#pragma once

#include "backends/cuda/kernels/thread_groups.cuh"

namespace ridge::backends::cuda {

// ticket: a word that is zero; the last block to arrive resets it to zero. One word takes about 2
// ns per arrival, so few large blocks arrive sooner than many small ones.

// Called by one thread of each of the grid's `blocks`: returns how many arrived before, 0 to blocks
// - 1.
__device__ __forceinline__ int come(int32_t* ticket, int blocks) {
  return static_cast<int>(
      atomicInc(reinterpret_cast<unsigned*>(ticket), static_cast<unsigned>(blocks - 1)));
}

// Called by one thread of each of the grid's `blocks`, the only one that wrote data for other
// blocks: whether all have arrived. If so, their earlier writes are visible.
__device__ __forceinline__ bool comes_last(int32_t* ticket, int blocks) {
  fence_device();
  const bool is_last = come(ticket, blocks) == blocks - 1;
  if (is_last) fence_device();
  return is_last;
}

// Called by every thread of each of the grid's `blocks`. The last `count` blocks that arrive get
// different numbers, 0 to count - 1, once all blocks have arrived and their earlier writes are
// visible. The other blocks get -1 at once. The few waiting blocks do not keep blocks that have yet
// to arrive from running.
__device__ __forceinline__ int join_last_blocks(int32_t* ticket, int blocks, int count) {
  __shared__ int number;
  __syncthreads();
  if (threadIdx.x == 0) {
    fence_device();  // for the whole block: the barrier orders its writes before this
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
