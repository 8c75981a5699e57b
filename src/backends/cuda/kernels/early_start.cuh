// SPDX-License-Identifier: Apache-2.0
// Short kernels in a row: each may start while the one before it runs out, and fetches what that
// one does not write. Where the hardware has no such start, each waits for its turn.
#pragma once

#include "backends/cuda/kernels/gpu_dialect.cuh"
#include "backends/cuda/kernels/gpu_runtime.h"

namespace ridge::backends::cuda {

// By every thread of a kernel that was launched early, before it reads what kernels before it
// wrote, and before it writes anything: returns when they are done.
__device__ __forceinline__ void wait_for_turn() {
#ifndef __HIP__
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// The next kernel may start once every block has come here.
__device__ __forceinline__ void let_next_start() {
#ifndef __HIP__
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

#if defined(__CUDACC__) || defined(__HIP__)
// The kernel must call wait_for_turn.
template <typename Arguments>
cudaError_t launch_early(void (*kernel)(Arguments),
                         dim3 grid,
                         int threads,
                         int64_t shared_bytes,
                         const Arguments& arguments,
                         cudaStream_t stream) {
#ifdef __HIP__
  kernel<<<grid, threads, static_cast<size_t>(shared_bytes), stream>>>(arguments);
  return cudaGetLastError();
#else
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = 1;
  void* values[] = {const_cast<Arguments*>(&arguments)};
  return cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(kernel), values);
#endif
}
#endif

}  // namespace ridge::backends::cuda
