// SPDX-License-Identifier: Apache-2.0
// Kernels that are made ready while what they wait for ends (programmatic dependent launch): a
// recorded step saves some of the gap between two of them. Elsewhere they start in their turn.
//
// Why it is right: such a kernel reads what other launches write, and writes, only after
// wait_for_grids, which returns when the grids before it have ended and what they wrote can be
// read. So it, too, ends only after them, and whoever waits for its end waits for theirs:
// dependences that follow from others stay left out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "backends/cuda/kernels/gpu_dialect.cuh"

namespace ridge::backends::cuda {

// By every thread, before it writes, and before it reads memory that other launches of a run write.
__device__ __forceinline__ void wait_for_grids() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The next kernel may be made ready once every block has come here; otherwise when this one ends.
__device__ __forceinline__ void let_next_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Launches a kernel that calls wait_for_grids; `cluster` of its blocks at a time share what they
// hold (CUDA's own, from compute capability 9.0 on).
template <typename... Parameters>
cudaError_t launch_clusters_early(void (*kernel)(Parameters...),
                                  dim3 grid,
                                  int cluster,
                                  int threads,
                                  int64_t shared_bytes,
                                  cudaStream_t stream,
                                  const std::remove_const_t<Parameters>&... arguments) {
#ifdef __HIP__
  kernel<<<grid, threads, static_cast<size_t>(shared_bytes), stream>>>(arguments...);
  return cudaGetLastError();
#else
  static const bool is_known = [] {
    int device = 0, major = 0;
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) ==
               cudaSuccess &&
           major >= 9;
  }();
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim = {static_cast<unsigned>(cluster), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = !is_known ? 0 : cluster > 1 ? 2 : 1;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
#endif
}

template <typename... Parameters>
cudaError_t launch_early(void (*kernel)(Parameters...),
                         dim3 grid,
                         int threads,
                         int64_t shared_bytes,
                         cudaStream_t stream,
                         const std::remove_const_t<Parameters>&... arguments) {
  return launch_clusters_early(kernel, grid, 1, threads, shared_bytes, stream, arguments...);
}

}  // namespace ridge::backends::cuda
