// SPDX-License-Identifier: Apache-2.0
// Attention over a KV cache in separate steps, with the matrix of scores in memory, as an eager
// framework computes it: one simple kernel per step. The tensor cores multiply what suits them
// (flash_attention/tensor/cached_products.cu).
#include "backends/cuda/kernels/cache/cached_attention.h"
#include "backends/cuda/kernels/cache/kv_cache.cuh"
#include "backends/cuda/kernels/map_rows.cuh"

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
  note_bad_cells(p.cells);
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
  note_bad_cells(p.cells);
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

// Mapping: vectors in the order of memory. Bound: memory, 2 N H C sizeof(T).
template <typename T, int kCount>
struct MaskBody {
  static constexpr int kVector = kCount;
  struct LoadedVectors {
    Packed<T, kCount> x;
    int32_t behind;  // distance from the token to the first cell's key, less than 0 if it wraps
    int32_t reach;   // largest distance that the token sees; -1 for padding
  };
  const T* x;
  T* y;
  const int32_t* positions;
  FastDivide per_token;  // rows of a token
  int64_t columns;
  int32_t ring, window;

  __device__ __forceinline__ void load(LoadedVectors& item, MapPlace at) const {
    const int32_t position = positions[per_token.quotient(at.row)];
    item.reach = window == 0 ? position : min(position, window - 1);
    item.behind = position < 0 ? 0 : position % ring - static_cast<int32_t>(at.column);
    item.x = load_packed<kCount>(x + at.row * columns + at.column);
  }
  __device__ __forceinline__ void finish(const LoadedVectors& item, MapPlace at) const {
    float v[kCount];
    unpack(item.x, v);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int32_t ahead = item.behind - i, behind = ahead < 0 ? ahead + ring : ahead;
      if (behind > item.reach) v[i] = -__builtin_huge_valf();
    }
    store_floats(y + at.row * columns + at.column, v);
  }
};

template <int kCount, typename T>
cudaError_t launch_mask(const CachedMask<T>& call, cudaStream_t stream) {
  const MaskBody<T, kCount> body{call.x,
                                 call.y,
                                 call.positions,
                                 FastDivide(call.heads),
                                 call.columns,
                                 static_cast<int32_t>(call.ring),
                                 static_cast<int32_t>(call.window)};
  return launch_map_rows(body, call.tokens * call.heads, call.columns, stream);
}

}  // namespace

template <typename T>
cudaError_t launch_cached_scores(const CachedScores<T>& call, cudaStream_t stream) {
  const int64_t elements = call.cells.tokens * call.heads * call.columns;
  if (elements == 0) return cudaSuccess;
  if constexpr (sizeof(T) == 2)
    if (suits_tensor_cores(call)) return launch_cached_scores_tensor(call, stream);
  cached_scores_kernel<T><<<blocks_for(elements), kThreads, 0, stream>>>(call);
  return cudaGetLastError();
}

template <typename T>
cudaError_t launch_cached_mix(const CachedMix<T>& call, cudaStream_t stream) {
  const int64_t elements = call.cells.tokens * call.heads * call.values.head_size;
  if (elements == 0) return cudaSuccess;
  if constexpr (sizeof(T) == 2)
    if (suits_tensor_cores(call)) return launch_cached_mix_tensor(call, stream);
  cached_mix_kernel<T><<<blocks_for(elements), kThreads, 0, stream>>>(call);
  return cudaGetLastError();
}

template <typename T>
cudaError_t launch_cached_mask(const CachedMask<T>& call, cudaStream_t stream) {
  if (call.tokens * call.heads * call.columns == 0) return cudaSuccess;
  constexpr int kCount = kVectorOf<T>;
  constexpr int64_t kMost = INT32_MAX;
  if (call.ring > kMost || call.window > kMost) return cudaErrorInvalidValue;
  const bool vectors =
      call.columns % kCount == 0 && takes_vectors<kCount>(call.x) && takes_vectors<kCount>(call.y);
  return vectors ? launch_mask<kCount>(call, stream) : launch_mask<1>(call, stream);
}

template cudaError_t launch_cached_scores(const CachedScores<float>&, cudaStream_t);
template cudaError_t launch_cached_scores(const CachedScores<uint16_t>&, cudaStream_t);
template cudaError_t launch_cached_mix(const CachedMix<float>&, cudaStream_t);
template cudaError_t launch_cached_mix(const CachedMix<uint16_t>&, cudaStream_t);
template cudaError_t launch_cached_mask(const CachedMask<float>&, cudaStream_t);
template cudaError_t launch_cached_mask(const CachedMask<uint16_t>&, cudaStream_t);

}  // namespace ridge::backends::cuda
