// SPDX-License-Identifier: Apache-2.0
// Memory sweeps and chains of operations. Bound: what each kernel is named after.
#include "backends/cuda/kernels/probes/ceilings.h"

#include "backends/cuda/kernels/gpu_dialect.cuh"
#include "backends/cuda/kernels/probes/resident_blocks.h"

namespace ridge::backends::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kUnroll = 4;  // loads in flight per thread
constexpr int kChains = 8;  // independent chains per thread
constexpr int kBlocksPerMultiprocessor = 4;

__device__ __forceinline__ void add(float4& sum, const float4& x) {
  sum.x += x.x;
  sum.y += x.y;
  sum.z += x.z;
  sum.w += x.w;
}

// Mapping: consecutive threads read consecutive vectors, kUnroll vectors each at a time.
__global__ void __launch_bounds__(kThreads)
    sweep_read_kernel(const __grid_constant__ MemorySweep p) {
  const float4* from = static_cast<const float4*>(p.from);
  const int64_t vectors = p.bytes / 16, step = static_cast<int64_t>(gridDim.x) * kThreads;
  float4 sum{};
  for (int pass = 0; pass < p.passes; ++pass) {
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < vectors;
         i += kUnroll * step) {
      float4 x[kUnroll];
#pragma unroll
      for (int u = 0; u < kUnroll; ++u)
        x[u] = i + u * step < vectors ? __ldcg(from + i + u * step) : float4{};
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) add(sum, x[u]);
    }
  }
  if (sum.x + sum.y + sum.z + sum.w == 1.2345e33f) static_cast<float*>(p.to)[0] = sum.x;
}

__global__ void __launch_bounds__(kThreads)
    sweep_copy_kernel(const __grid_constant__ MemorySweep p) {
  float4* to = static_cast<float4*>(p.to);
  const float4* from = static_cast<const float4*>(p.from);
  const int64_t vectors = p.bytes / 32, step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int pass = 0; pass < p.passes; ++pass) {
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < vectors;
         i += kUnroll * step) {
      float4 x[kUnroll];
#pragma unroll
      for (int u = 0; u < kUnroll; ++u)
        x[u] = i + u * step < vectors ? __ldcg(from + i + u * step) : float4{};
#pragma unroll
      for (int u = 0; u < kUnroll; ++u)
        if (i + u * step < vectors) __stcg(to + i + u * step, x[u]);
    }
  }
}

template <bool kExponentials>
__global__ void __launch_bounds__(kThreads) chain_kernel(float* sink, int iterations) {
  float x[kChains];
#pragma unroll
  for (int c = 0; c < kChains; ++c) x[c] = static_cast<float>(threadIdx.x + c) * 1e-3f;
  for (int i = 0; i < iterations; ++i) {
#pragma unroll
    for (int c = 0; c < kChains; ++c) x[c] = kExponentials ? expf(-x[c]) : fmaf(x[c], 0.999f, 0.5f);
  }
  float sum = 0;
#pragma unroll
  for (int c = 0; c < kChains; ++c) sum += x[c];
  if (sum == 1.2345e33f) *sink = sum;
}

// Each launch continues where the previous one stopped: by the time a line is read again, all
// caches have evicted it.
__global__ void follow_kernel(const uint32_t* from, uint32_t words, int trips, uint32_t* place) {
  constexpr uint32_t kStep = 1000003;  // a prime number of words
  constexpr uint32_t kRare = 0x7fc12345u;
  uint32_t at = *place % words;
  for (int i = 0; i < trips; ++i) at = (at + kStep + (from[at] == kRare ? 1 : 0)) % words;
  *place = at;
}

__global__ void nothing_kernel() {}

template <typename Kernel>
cudaError_t launch_sweep(Kernel* kernel, const MemorySweep& sweep, cudaStream_t stream) {
  const unsigned blocks = static_cast<unsigned>(resident_blocks(kernel, kThreads));
  kernel<<<blocks, kThreads, 0, stream>>>(sweep);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_sweep_read(const MemorySweep& sweep, cudaStream_t stream) {
  return launch_sweep(sweep_read_kernel, sweep, stream);
}

cudaError_t launch_sweep_copy(const MemorySweep& sweep, cudaStream_t stream) {
  return launch_sweep(sweep_copy_kernel, sweep, stream);
}

int64_t chain_operations(int multiprocessors, int iterations) {
  return int64_t{kBlocksPerMultiprocessor} * multiprocessors * kThreads * kChains * iterations;
}

cudaError_t launch_multiply_adds(float* sink,
                                 int multiprocessors,
                                 int iterations,
                                 cudaStream_t stream) {
  chain_kernel<false>
      <<<kBlocksPerMultiprocessor * multiprocessors, kThreads, 0, stream>>>(sink, iterations);
  return cudaGetLastError();
}

cudaError_t launch_exponentials(float* sink,
                                int multiprocessors,
                                int iterations,
                                cudaStream_t stream) {
  chain_kernel<true>
      <<<kBlocksPerMultiprocessor * multiprocessors, kThreads, 0, stream>>>(sink, iterations);
  return cudaGetLastError();
}

cudaError_t launch_follow(const void* from,
                          int64_t bytes,
                          int trips,
                          uint32_t* place,
                          cudaStream_t stream) {
  follow_kernel<<<1, 1, 0, stream>>>(static_cast<const uint32_t*>(from),
                                     static_cast<uint32_t>(bytes / 4), trips, place);
  return cudaGetLastError();
}

cudaError_t launch_nothing(cudaStream_t stream) {
  nothing_kernel<<<1, 32, 0, stream>>>();
  return cudaGetLastError();
}

}  // namespace ridge::backends::cuda
