// SPDX-License-Identifier: Apache-2.0
// A warp a head: its pairs in registers between norm and rotation.
#include "backends/cuda/kernels/rope_append.h"

#include "backends/cuda/kernels/early_start.cuh"
#include "backends/cuda/kernels/kv_cache.cuh"
#include "backends/cuda/kernels/row_group.cuh"

namespace ridge::backends::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kLanes;
constexpr int kPairs = static_cast<int>(kRopeAppendMostHeadSize) / 2 / kLanes;  // of a lane

// Where a head of a token goes: a row of q, or of the caches' row; null where it goes nowhere.
template <typename T>
__device__ __forceinline__ T* target_of(const RopeAppend<T>& p,
                                        int64_t token,
                                        int64_t head,
                                        int64_t row) {
  const int64_t kv_heads = p.keys.kv_heads, head_size = p.keys.head_size;
  if (head < p.heads) return p.q + (token * p.heads + head) * head_size;
  if (row < 0) return nullptr;
  const bool is_key = head < p.heads + kv_heads;
  T* cache = is_key ? p.keys.data : p.values.data;
  const int64_t kv_head = head - p.heads - (is_key ? 0 : kv_heads);
  return cache + (row * kv_heads + kv_head) * head_size;
}

template <typename T>
__device__ __forceinline__ void append_head(const RopeAppend<T>& p,
                                            int64_t token,
                                            int64_t head,
                                            int64_t row) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int pairs = static_cast<int>(p.keys.head_size / 2);
  const bool is_turned = head < p.heads + p.keys.kv_heads;
  const T* from = p.merged[token] + head * p.keys.head_size;
  const int apart = p.interleaved ? 1 : pairs, step = p.interleaved ? 2 : 1;
  float a[kPairs], b[kPairs], squares = 0.0f;
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    const int pair = lane + i * kLanes;
    a[i] = pair < pairs ? to_float(from[pair * step]) : 0.0f;
    b[i] = pair < pairs ? to_float(from[pair * step + apart]) : 0.0f;
    squares = fmaf(a[i], a[i], fmaf(b[i], b[i], squares));
  }
  T* to = target_of(p, token, head, row);
  if (to == nullptr) return;
  if (p.q_norm != nullptr && is_turned) {
    const float* norm = head < p.heads ? p.q_norm : p.k_norm;
    const float mean = reduce_lanes(squares, Sum{}) / static_cast<float>(p.keys.head_size);
    const float scale = 1.0f / sqrtf(mean + p.eps);
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const int pair = lane + i * kLanes;
      if (pair >= pairs) continue;
      a[i] *= scale * (p.norm_offset + norm[pair * step]);
      b[i] *= scale * (p.norm_offset + norm[pair * step + apart]);
    }
  }
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    const int pair = lane + i * kLanes;
    if (pair >= pairs) continue;
    float cosine = 1.0f, sine = 0.0f;
    if (is_turned) {
      cosine = p.cos[token * pairs + pair];
      sine = p.sin[token * pairs + pair];
    }
    to[pair * step] = from_float<T>(a[i] * cosine - b[i] * sine);
    to[pair * step + apart] = from_float<T>(b[i] * cosine + a[i] * sine);
  }
}

// Mapping: a block for some heads (x) of a token (y), a warp a head at a time. Bound: memory, 2 N
// (H + 2 K) E sizeof(T); of a few tokens latency.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    rope_append_kernel(const __grid_constant__ RopeAppend<T> p) {
  let_next_start();
  wait_for_grids();
  if (blockIdx.x + blockIdx.y == 0) note_bad_cells(p.cells);
  const int64_t token = blockIdx.y, heads = p.heads + 2 * p.keys.kv_heads;
  int64_t row = row_of_token(p.cells, token);
  const bool is_later =
      row >= 0 && sees_later(p.cells, token, row, static_cast<int>(threadIdx.x), kThreads);
  if (__syncthreads_or(is_later) != 0) row = -1;
  for (int64_t head = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kLanes;
       head < heads; head += static_cast<int64_t>(gridDim.x) * kWarps)
    append_head(p, token, head, row);
}

}  // namespace

template <typename T>
cudaError_t launch_rope_append(const RopeAppend<T>& call, cudaStream_t stream) {
  if (call.keys.head_size % 2 != 0 || call.keys.head_size > kRopeAppendMostHeadSize)
    return cudaErrorInvalidValue;
  if (call.cells.tokens == 0) return cudaSuccess;
  // Of many tokens a block each is enough, and looks for later ones once.
  constexpr int64_t kFewTokens = 32;
  const int64_t heads = call.heads + 2 * call.keys.kv_heads;
  const int64_t blocks = call.cells.tokens > kFewTokens ? 1 : (heads + kWarps - 1) / kWarps;
  const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(call.cells.tokens));
  return launch_early(rope_append_kernel<T>, grid, kThreads, 0, stream, call);
}

template cudaError_t launch_rope_append(const RopeAppend<float>&, cudaStream_t);
template cudaError_t launch_rope_append(const RopeAppend<uint16_t>&, cudaStream_t);

}  // namespace ridge::backends::cuda
