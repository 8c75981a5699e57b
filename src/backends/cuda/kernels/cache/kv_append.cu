// SPDX-License-Identifier: Apache-2.0
// Writes the keys and values of a run's tokens to their cells.
#include "backends/cuda/kernels/cache/kv_cache.cuh"
#include "backends/cuda/kernels/cache/quantize.cuh"
#include "backends/cuda/kernels/vector_io.cuh"

namespace ridge::backends::cuda {
namespace {

constexpr int kThreads = 128;

// Mapping: one block per token, kCount elements per thread. Bound: memory, 4 N K E sizeof(T);
// latency for a single token.
template <typename T, int kCount>
__global__ void __launch_bounds__(kThreads)
    kv_append_kernel(const __grid_constant__ KvAppend<T> p) {
  const int64_t token = blockIdx.x;
  note_bad_cells(p.cells);
  const int64_t row = row_of_token(p.cells, token);
  if (row < 0) return;
  if (__syncthreads_or(sees_later(p.cells, token, row, threadIdx.x, kThreads)) != 0) return;
  const int64_t head_size = p.keys.head_size, width = p.keys.kv_heads * head_size;
  const int64_t to = row * width;
  for (int64_t i = static_cast<int64_t>(threadIdx.x) * kCount; i < width; i += kThreads * kCount) {
    const int64_t head = i / head_size, e = i - head * head_size;
    store_packed(p.keys.data + to + i, load_packed<kCount>(p.k.data + token * p.k.token_stride +
                                                           head * p.k.head_stride + e));
    store_packed(p.values.data + to + i, load_packed<kCount>(p.v.data + token * p.v.token_stride +
                                                             head * p.v.head_stride + e));
  }
}

// For caches of quants. Mapping: one block per token, one head per warp, which reads it twice.
// Bound: latency.
template <typename T, typename C>
__global__ void __launch_bounds__(kThreads)
    kv_append_quants_kernel(const __grid_constant__ KvAppend<T, C> p) {
  const int64_t token = blockIdx.x;
  note_bad_cells(p.cells);
  const int64_t row = row_of_token(p.cells, token);
  if (row < 0) return;
  if (__syncthreads_or(sees_later(p.cells, token, row, threadIdx.x, kThreads)) != 0) return;
  const int64_t kv_heads = p.keys.kv_heads;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  for (int64_t i = threadIdx.x / kLanes; i < 2 * kv_heads; i += kThreads / kLanes) {
    const bool is_key = i < kv_heads;
    const int64_t head = is_key ? i : i - kv_heads;
    const T* from = (is_key ? p.k : p.v).head(token, head);
    float most = 0.0f;
    for (int64_t e = lane; e < p.keys.head_size; e += kLanes)
      most = fmaxf(most, magnitude(to_float(from[e])));
    const HeadScale scale = HeadScale::of(reduce_lanes(most, Max{}), C{});
    const Cache<C>& cache = is_key ? p.keys : p.values;
    for (int64_t e = lane; e < p.keys.head_size; e += kLanes) {
      const float value[1] = {to_float(from[e])};
      store_quants(cache.head(row, head) + e, value, scale);
    }
    if (lane == 0) *cache.scale(row, head) = scale.scale;
  }
}

template <int kCount, typename T>
bool takes_head_vectors(const TokenHeads<T>& heads) {
  return takes_vectors<kCount>(StridedRows<T>{heads.data, heads.token_stride}) &&
         takes_vectors<kCount>(StridedRows<T>{heads.data, heads.head_stride});
}

}  // namespace

template <typename T, typename C>
cudaError_t launch_kv_append(const KvAppend<T, C>& call, cudaStream_t stream) {
  if (call.cells.tokens == 0) return cudaSuccess;
  const auto blocks = static_cast<unsigned>(call.cells.tokens);
  if constexpr (!std::is_same_v<T, C>) {
    kv_append_quants_kernel<T, C><<<blocks, kThreads, 0, stream>>>(call);
  } else {
    constexpr int kCount = kVectorOf<T>;
    const bool vectors = call.keys.head_size % kCount == 0 && takes_head_vectors<kCount>(call.k) &&
                         takes_head_vectors<kCount>(call.v) &&
                         takes_vectors<kCount>(call.keys.data) &&
                         takes_vectors<kCount>(call.values.data);
    if (vectors)
      kv_append_kernel<T, kCount><<<blocks, kThreads, 0, stream>>>(call);
    else
      kv_append_kernel<T, 1><<<blocks, kThreads, 0, stream>>>(call);
  }
  return cudaGetLastError();
}

template cudaError_t launch_kv_append(const KvAppend<float>&, cudaStream_t);
template cudaError_t launch_kv_append(const KvAppend<uint16_t>&, cudaStream_t);
template cudaError_t launch_kv_append(const KvAppend<uint16_t, int8_t>&, cudaStream_t);
template cudaError_t launch_kv_append(const KvAppend<uint16_t, F8E4M3>&, cudaStream_t);

}  // namespace ridge::backends::cuda
