// SPDX-License-Identifier: Apache-2.0
// One thread per element of the result. Bound: latency of strided loads; this kernel is not meant
// to be fast.
#include "backends/cuda/kernels/gemm/strided_product.h"

#include "backends/cuda/kernels/gpu_dialect.cuh"

namespace ridge::backends::cuda {
namespace {

constexpr int kThreads = 256;

__device__ float element(const void* data, DType dtype, int64_t at) {
  return dtype == DType::kF32 ? static_cast<const float*>(data)[at]
                              : to_float(static_cast<const uint16_t*>(data)[at]);
}

__global__ void __launch_bounds__(kThreads)
    strided_product_kernel(const __grid_constant__ StridedProduct p) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (thread >= p.batch * p.m * p.n) return;
  const int64_t j = thread % p.n, i = thread / p.n % p.m, b = thread / (p.n * p.m);
  float sum = 0.0f;
  for (int64_t k = 0; k < p.k; ++k) {
    sum += element(p.a.data, p.input, b * p.a.batch + i * p.a.row + k * p.a.column) *
           element(p.b.data, p.input, b * p.b.batch + k * p.b.row + j * p.b.column);
  }
  const int64_t at = b * p.c_batch + i * p.c_row + j * p.c_column;
  if (p.accumulate) sum += element(p.c, p.output, at);
  if (p.output == DType::kF32)
    static_cast<float*>(p.c)[at] = sum;
  else
    static_cast<uint16_t*>(p.c)[at] = static_cast<uint16_t>(pack_bf16(sum, 0.0f));
}

}  // namespace

cudaError_t launch_strided_product(const StridedProduct& call, cudaStream_t stream) {
  const int64_t elements = call.batch * call.m * call.n;
  if (elements == 0) return cudaSuccess;
  const unsigned blocks = static_cast<unsigned>((elements + kThreads - 1) / kThreads);
  strided_product_kernel<<<blocks, kThreads, 0, stream>>>(call);
  return cudaGetLastError();
}

}  // namespace ridge::backends::cuda
