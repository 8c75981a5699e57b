// SPDX-License-Identifier: Apache-2.0
// One warp per result, for any type of weight.
#include "backends/cuda/kernels/gemm/quantized_matmul.h"

#include <algorithm>

#include "backends/cuda/kernels/row_group.cuh"

namespace ridge::backends::cuda {
namespace {

constexpr int kThreads = 128;

// Bound: L2, the weight is read for every token and x for every row of the weight.
template <typename Weight>
__global__ void __launch_bounds__(kThreads)
    quantized_gemm_kernel(const __grid_constant__ QuantizedGemm<Weight> p) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int64_t warps = static_cast<int64_t>(gridDim.x) * (kThreads / kLanes);
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * (kThreads / kLanes) + threadIdx.x / kLanes;
       i < p.tokens * p.out; i += warps) {
    const int64_t token = i / p.out, row = i - token * p.out;
    float sum = 0.0f;
    for (int64_t k = lane; k < p.in; k += kLanes)
      sum = fmaf(p.x[token * p.in + k], to_float(p.weight[row * p.in + k]), sum);
    sum = reduce_lanes(sum, Sum{});
    if (lane == 0) p.y[i] = sum;
  }
}

}  // namespace

template <typename Weight>
cudaError_t launch_quantized_gemm(const QuantizedGemm<Weight>& call, cudaStream_t stream) {
  const int64_t results = call.tokens * call.out;
  if (results == 0) return cudaSuccess;
  constexpr int64_t kMostBlocks = 65535, kWarps = kThreads / kLanes;
  const auto blocks = static_cast<unsigned>(std::min((results + kWarps - 1) / kWarps, kMostBlocks));
  quantized_gemm_kernel<Weight><<<blocks, kThreads, 0, stream>>>(call);
  return cudaGetLastError();
}

template cudaError_t launch_quantized_gemm(const QuantizedGemm<float>&, cudaStream_t);
template cudaError_t launch_quantized_gemm(const QuantizedGemm<uint16_t>&, cudaStream_t);

}  // namespace ridge::backends::cuda
