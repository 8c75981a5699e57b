// SPDX-License-Identifier: Apache-2.0
// What differs between CUDA and HIP where threads wait for each other or agree on something: beside
// gpu_dialect.cuh, which more kernels need.
#pragma once

#include "backends/cuda/kernels/gpu_dialect.cuh"

namespace ridge::backends::cuda {

#ifdef __HIP__
__device__ __forceinline__ void sync_threads_of(int, int) { __syncthreads(); }
__device__ __forceinline__ void fence_device() { __threadfence(); }
__device__ __forceinline__ int max_of_lanes(int value) {
  for (int mask = kLanes / 2; mask > 0; mask /= 2) {
    const int other = shuffle_xor(value, mask);
    value = value > other ? value : other;
  }
  return value;
}
#else
// A barrier of part of a block: `threads` in whole warps, `part` in [0, 15) names them. All parts
// must come equally often, since elsewhere it is the block's.
__device__ __forceinline__ void sync_threads_of(int part, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(part + 1), "r"(threads) : "memory");
}
// What this thread wrote, and saw written, comes before what it writes from here on.
// __threadfence() is in order with all other fences of the GPU as well, and slower.
__device__ __forceinline__ void fence_device() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
__device__ __forceinline__ int max_of_lanes(int value) {
  return __reduce_max_sync(0xffffffffu, value);
}
#endif

}  // namespace ridge::backends::cuda
