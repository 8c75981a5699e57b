// SPDX-License-Identifier: Apache-2.0
// Asks the driver for a kernel's shared memory and registers, once for each kind of launch.
#include "backends/cuda/kernels/early_start.cuh"

#ifndef __HIP__
#include <algorithm>
#include <map>
#include <tuple>

namespace ridge::backends::cuda {

int shared_memory_percent(const void* kernel,
                          unsigned blocks,
                          int cluster,
                          int threads,
                          int64_t shared_bytes) {
  // The hardware has these sizes and smaller ones (CUDA programming guide, compute capability 9.0).
  // A percentage is rounded up to one of them.
  constexpr int64_t kLevels[] = {64, 100, 132, 164, 196};
  static const int64_t most_bytes = device_attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor),
                       reserved = device_attribute(cudaDevAttrReservedSharedMemoryPerBlock);
  // A cluster lies within a group of multiprocessors, which leaves some out: of 16 clusters of
  // eight blocks on 132 some wait where a multiprocessor has room for one block; of 8 none do.
  const int64_t places = cluster > 1 ? multiprocessors() * 3 / 4 : multiprocessors(),
                each = (blocks + places - 1) / places;
  // Looked up at each launch by the host, which takes far longer itself.
  thread_local std::map<std::tuple<const void*, int, int64_t, int64_t>, int> known;
  const auto [found, is_new] = known.try_emplace({kernel, threads, shared_bytes, each}, 0);
  if (!is_new) return found->second;
  int at_once = 0;
  cudaFuncAttributes of{};
  if (cudaOccupancyMaxActiveBlocksPerMultiprocessor(
          &at_once, kernel, threads, static_cast<size_t>(shared_bytes)) != cudaSuccess ||
      cudaFuncGetAttributes(&of, kernel) != cudaSuccess) {
    cudaGetLastError();  // or a later check would report it
    return found->second = cudaSharedmemCarveoutMaxShared;
  }
  const int64_t bytes = std::min<int64_t>(at_once, each) *
                        (shared_bytes + static_cast<int64_t>(of.sharedSizeBytes) + reserved);
  const auto* level = std::ranges::find_if(kLevels, [&](int64_t kb) { return kb << 10 >= bytes; });
  found->second = level == std::end(kLevels) ? cudaSharedmemCarveoutMaxShared
                                             : static_cast<int>(100 * (*level << 10) / most_bytes);
  return found->second;
}

}  // namespace ridge::backends::cuda
#endif
