// SPDX-License-Identifier: Apache-2.0
// Kernels that are made ready while what they wait for ends (programmatic dependent launch): a
// recorded step saves some of the gap between two of them. Elsewhere they start in their turn.
//
// Why it is right: such a kernel touches memory only after wait_for_grids, which returns when the
// grids before it have ended and what they wrote can be read. So it, too, ends only after them, and
// whoever waits for its end waits for theirs: dependences that follow from others stay left out.
#pragma once

#include <type_traits>

#include "backends/cuda/kernels/gpu_dialect.cuh"

namespace ridge::backends::cuda {

// By every thread, before it reads or writes memory that other launches touch.
__device__ __forceinline__ void wait_for_grids() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Launches a kernel that begins with wait_for_grids, without dynamic shared memory. The caller asks
// for the last error.
template <typename... Parameters>
void launch_early(void (*kernel)(Parameters...),
                  unsigned blocks,
                  int threads,
                  cudaStream_t stream,
                  const std::remove_const_t<Parameters>&... arguments) {
#ifdef __HIP__
  kernel<<<blocks, threads, 0, stream>>>(arguments...);
#else
  static const bool is_known = [] {
    int device = 0, major = 0;
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) ==
               cudaSuccess &&
           major >= 9;
  }();
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = is_known ? 1 : 0;
  cudaLaunchKernelEx(&config, kernel, arguments...);
#endif
}

}  // namespace ridge::backends::cuda
