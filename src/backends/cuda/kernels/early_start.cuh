// SPDX-License-Identifier: Apache-2.0
// Kernels that are set up while the kernel they wait for ends (programmatic dependent launch): a
// recorded step saves part of the gap between two such kernels. On other GPUs they start in order.
//
// Why it is correct: such a kernel reads data that other launches write, and writes, only after
// wait_for_grids, which returns when the preceding grids have ended and their writes are visible.
// So the kernel itself ends only after them, and a kernel that waits for its end also waits for
// theirs: transitive dependences can be left out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "backends/cuda/kernels/gpu_dialect.cuh"

#ifndef __HIP__
#include "backends/cuda/kernels/device_attribute.h"
#endif

namespace ridge::backends::cuda {

// Called by every thread before it writes, and before it reads memory that other launches of a run
// write.
__device__ __forceinline__ void wait_for_grids() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The next kernel may start once every block has called this, or when this kernel ends.
__device__ __forceinline__ void let_next_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Brings a line of memory to the L2 cache, which launches that write it go through: this may be
// called at any time.
__device__ __forceinline__ void prefetch_to_l2(const void* p) {
#ifdef __CUDA_ARCH__
  asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
#endif
}

// The part of a multiprocessor's L1 that a launch wants as shared memory, in percent of the most:
// enough for those of its `blocks` that run there at once, and at least 64 KB, so that most kernels
// agree. Without this, kernels after one with much shared memory are left with 28 KB of L1, where
// loads into registers wait for memory, and read a third slower
// (docs/runs/2026-11-29-shared-memory-and-l1-h200.md).
int shared_memory_percent(const void* kernel,
                          unsigned blocks,
                          int cluster,
                          int threads,
                          int64_t shared_bytes);

// Launches a kernel that calls wait_for_grids. The blocks form clusters of `cluster` blocks that
// share their shared memory (CUDA only, from compute capability 9.0 on).
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
  const bool is_known = has_clusters();
  cudaLaunchAttribute attributes[3] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributePreferredSharedMemoryCarveout;
  attributes[2].id = cudaLaunchAttributeClusterDimension;
  attributes[2].val.clusterDim = {static_cast<unsigned>(cluster), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = !is_known ? 0 : cluster > 1 ? 3 : 2;
  if (is_known)
    attributes[1].val.sharedMemCarveout = static_cast<unsigned>(
        shared_memory_percent(reinterpret_cast<const void*>(kernel), grid.x * grid.y * grid.z,
                              cluster, threads, shared_bytes));
  return cudaLaunchKernelEx(&config, kernel, arguments...);
#endif
}

#ifndef __HIP__
// The clusters of a kernel that run at once; 0 if that is not known. A cluster lies within a group
// of multiprocessors (GPC), which leaves some out: on an H200 a second round would take as long
// again. The kernel must be allowed its shared memory.
template <typename Kernel>
int clusters_at_once(Kernel kernel, int cluster, int threads, int64_t shared_bytes) {
  cudaLaunchAttribute dimension{};
  dimension.id = cudaLaunchAttributeClusterDimension;
  dimension.val.clusterDim = {static_cast<unsigned>(cluster), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(cluster));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
  config.attrs = &dimension;
  config.numAttrs = 1;
  int count = 0;
  const cudaError_t status = cudaOccupancyMaxActiveClusters(&count, kernel, &config);
  return status == cudaSuccess ? count : 0;
}
#endif

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
