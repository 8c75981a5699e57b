// SPDX-License-Identifier: Apache-2.0
// Synchronization and reductions among threads that differ between CUDA and HIP. gpu_dialect.cuh
// has what more kernels need.
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
// A barrier for part of a block: `threads` must be a multiple of the warp size, and `part` in [0,
// 15) identifies the part. All parts must call it equally often, because on HIP it is the block's
// barrier.
__device__ __forceinline__ void sync_threads_of(int part, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(part + 1), "r"(threads) : "memory");
}
// Orders this thread's earlier writes, and the writes that it has observed, before its later ones.
// __threadfence() is also ordered with all other fences of the GPU, and slower.
__device__ __forceinline__ void fence_device() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
__device__ __forceinline__ int max_of_lanes(int value) {
  return __reduce_max_sync(0xffffffffu, value);
}
#endif

}  // namespace ridge::backends::cuda
