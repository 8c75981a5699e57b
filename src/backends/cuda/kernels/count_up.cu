// SPDX-License-Identifier: Apache-2.0
// Counts on the device, so that the host's word is only written.
#include "backends/cuda/kernels/count_up.cuh"

namespace ridge::backends::cuda {
namespace {

// Bound: the launch.
__global__ void count_up_kernel(const __grid_constant__ CollectiveCount count) { count_up(count); }

}  // namespace

cudaError_t launch_count_up(const CollectiveCount& count, cudaStream_t stream) {
  count_up_kernel<<<1, 1, 0, stream>>>(count);
  return cudaGetLastError();
}

}  // namespace ridge::backends::cuda
