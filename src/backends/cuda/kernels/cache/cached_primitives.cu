// SPDX-License-Identifier: Apache-2.0
// Attention over a KV cache in separate steps, with the matrix of scores in memory, as an eager
// framework computes it: one simple kernel per step.
#include "backends/cuda/kernels/cache/cached_attention.h"
#include "backends/cuda/kernels/cache/kv_cache.cuh"

namespace ridge::backends::cuda {
namespace {

constexpr int kThreads = 128;
constexpr unsigned kMostBlocks = 65535;

unsigned blocks_for(int64_t elements) {
  const int64_t blocks = (elements + kThreads - 1) / kThreads;
  return static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks);
}

template <typename Visit>
__device__ __forceinline__ void for_each_element(int64_t elements, const Visit& visit) {
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < elements;
       i += static_cast<int64_t>(gridDim.x) * kThreads)
    visit(i);
}

// Mapping: one score per thread. Bound: L2, each key is read for every token and head that attends
// to it.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    cached_scores_kernel(const __grid_constant__ CachedScores<T> p) {
  if (blockIdx.x == 0) note_bad_cells(p.cells);
  for_each_element(p.cells.tokens * p.heads * p.columns, [&](int64_t i) {
    const int64_t column = i % p.columns, head = i / p.columns % p.heads,
                  token = i / (p.columns * p.heads);
    float sum = 0.0f;
    if (live_position(p.cells, token) >= 0) {
      const SlotCells cells(p.cells, p.cells.slots[token]);
      const int64_t kv_head = head / (p.heads / p.keys.kv_heads);
      const T* q = p.q.data + token * p.q.token_stride + head * p.q.head_stride;
      const T* k =
          p.keys.data +
          (cells.row(static_cast<uint32_t>(column)) * p.keys.kv_heads + kv_head) * p.keys.head_size;
      for (int64_t e = 0; e < p.keys.head_size; ++e)
        sum = fmaf(to_float(q[e]), to_float(k[e]), sum);
    }
    p.scores[i] = from_float<T>(sum);
  });
}

// Mapping: one element of o per thread. Bound: L2, each value is read for every token and head.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    cached_mix_kernel(const __grid_constant__ CachedMix<T> p) {
  if (blockIdx.x == 0) note_bad_cells(p.cells);
  const int64_t head_size = p.values.head_size;
  for_each_element(p.cells.tokens * p.heads * head_size, [&](int64_t i) {
    const int64_t e = i % head_size, head = i / head_size % p.heads,
                  token = i / (head_size * p.heads);
    float sum = 0.0f;
    if (live_position(p.cells, token) >= 0) {
      const SlotCells cells(p.cells, p.cells.slots[token]);
      const int64_t kv_head = head / (p.heads / p.values.kv_heads);
      const T* weights = p.p + (token * p.heads + head) * p.columns;
      for (int64_t column = 0; column < p.columns; ++column)
        sum = fmaf(
            to_float(weights[column]),
            to_float(p.values.data[(cells.row(static_cast<uint32_t>(column)) * p.values.kv_heads +
                                    kv_head) *
                                       head_size +
                                   e]),
            sum);
    }
    p.o.data[token * p.o.token_stride + head * p.o.head_stride + e] = from_float<T>(sum);
  });
}

// Bound: memory, 2 N H C sizeof(T).
template <typename T>
__global__ void __launch_bounds__(kThreads)
    cached_mask_kernel(const __grid_constant__ CachedMask<T> p) {
  for_each_element(p.tokens * p.heads * p.columns, [&](int64_t i) {
    const int64_t cell = i % p.columns, position = p.positions[i / (p.columns * p.heads)];
    int64_t behind = (position - cell) % p.ring;
    if (behind < 0) behind += p.ring;
    const bool seen = position >= 0 && behind <= position && (p.window == 0 || behind < p.window);
    p.y[i] = seen ? p.x[i] : from_float<T>(-__builtin_huge_valf());
  });
}

}  // namespace

template <typename T>
cudaError_t launch_cached_scores(const CachedScores<T>& call, cudaStream_t stream) {
  const int64_t elements = call.cells.tokens * call.heads * call.columns;
  if (elements == 0) return cudaSuccess;
  cached_scores_kernel<T><<<blocks_for(elements), kThreads, 0, stream>>>(call);
  return cudaGetLastError();
}

template <typename T>
cudaError_t launch_cached_mix(const CachedMix<T>& call, cudaStream_t stream) {
  const int64_t elements = call.cells.tokens * call.heads * call.values.head_size;
  if (elements == 0) return cudaSuccess;
  cached_mix_kernel<T><<<blocks_for(elements), kThreads, 0, stream>>>(call);
  return cudaGetLastError();
}

template <typename T>
cudaError_t launch_cached_mask(const CachedMask<T>& call, cudaStream_t stream) {
  const int64_t elements = call.tokens * call.heads * call.columns;
  if (elements == 0) return cudaSuccess;
  cached_mask_kernel<T><<<blocks_for(elements), kThreads, 0, stream>>>(call);
  return cudaGetLastError();
}

template cudaError_t launch_cached_scores(const CachedScores<float>&, cudaStream_t);
template cudaError_t launch_cached_scores(const CachedScores<uint16_t>&, cudaStream_t);
template cudaError_t launch_cached_mix(const CachedMix<float>&, cudaStream_t);
template cudaError_t launch_cached_mix(const CachedMix<uint16_t>&, cudaStream_t);
template cudaError_t launch_cached_mask(const CachedMask<float>&, cudaStream_t);
template cudaError_t launch_cached_mask(const CachedMask<uint16_t>&, cudaStream_t);

}  // namespace ridge::backends::cuda
