// SPDX-License-Identifier: Apache-2.0
// Waits for the host.
#include "backends/cuda/kernels/probes/hold.h"

#include "backends/cuda/kernels/gpu_dialect.cuh"

namespace ridge::backends::cuda {
namespace {

// Bound: the host's write of the word, and a transfer over the bus after it.
__global__ void hold_kernel(const volatile int32_t* gate) {
  while (*gate == 0) {
  }
}

}  // namespace

cudaError_t launch_hold(const int32_t* gate, cudaStream_t stream) {
  hold_kernel<<<1, 1, 0, stream>>>(gate);
  return cudaGetLastError();
}

}  // namespace ridge::backends::cuda
