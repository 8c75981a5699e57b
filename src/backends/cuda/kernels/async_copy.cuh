// SPDX-License-Identifier: Apache-2.0
// Asynchronous copies from memory to shared memory (cp.async), which each thread waits for itself.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace ridge::backends::cuda {

// Copies 16 bytes, past the L1 cache; both addresses are multiples of 16.
__device__ __forceinline__ void copy_async(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(to))),
               "l"(from)
               : "memory");
}
// The copies that this thread has started since the last call form a group.
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Waits for all of this thread's groups but the last kLeft.
template <int kLeft>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

}  // namespace ridge::backends::cuda
