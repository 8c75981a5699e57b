// SPDX-License-Identifier: Apache-2.0
// A warp a head: its pairs in registers between norm and rotation.
#include "backends/cuda/kernels/rope_append.h"

#include <algorithm>

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

// Pairs kTogether at a time: neighbours, which lie side by side where the pairs are halves.
template <int kTogether, typename T>
__device__ __forceinline__ void append_head(const RopeAppend<T>& p,
                                            int64_t token,
                                            int64_t head,
                                            int64_t row) {
  constexpr int kSteps = kPairs / kTogether;
  const int first = static_cast<int>(threadIdx.x) % kLanes * kTogether;
  const int pairs = static_cast<int>(p.keys.head_size / 2);
  const bool is_turned = head < p.heads + p.keys.kv_heads;
  const T* from = p.merged[token] + head * p.keys.head_size;
  const int apart = p.interleaved ? 1 : pairs, step = p.interleaved ? 2 : 1;
  T* to = target_of(p, token, head, row);
  if (to == nullptr) return;
  float a[kSteps][kTogether], b[kSteps][kTogether], squares = 0.0f;
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
    const int pair = first + i * kLanes * kTogether;
    if (pair >= pairs) continue;
    load_floats<kTogether>(from + pair * step, a[i]);
    load_floats<kTogether>(from + pair * step + apart, b[i]);
#pragma unroll
    for (int k = 0; k < kTogether; ++k)
      squares = fmaf(a[i][k], a[i][k], fmaf(b[i][k], b[i][k], squares));
  }
  if (p.q_norm != nullptr && is_turned) {
    const float* norm = head < p.heads ? p.q_norm : p.k_norm;
    gather_lanes();
    const float mean = reduce_lanes(squares, Sum{}) / static_cast<float>(p.keys.head_size);
    const float scale = 1.0f / sqrtf(mean + p.eps);
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      const int pair = first + i * kLanes * kTogether;
      if (pair >= pairs) continue;
#pragma unroll
      for (int k = 0; k < kTogether; ++k) {
        a[i][k] *= scale * (p.norm_offset + norm[(pair + k) * step]);
        b[i][k] *= scale * (p.norm_offset + norm[(pair + k) * step + apart]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
    const int pair = first + i * kLanes * kTogether;
    if (pair >= pairs) continue;
    float low[kTogether], high[kTogether];
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      const float cosine = is_turned ? p.cos[token * pairs + pair + k] : 1.0f,
                  sine = is_turned ? p.sin[token * pairs + pair + k] : 0.0f;
      low[k] = a[i][k] * cosine - b[i][k] * sine;
      high[k] = b[i][k] * cosine + a[i][k] * sine;
    }
    store_floats(to + pair * step, low);
    store_floats(to + pair * step + apart, high);
  }
}

// Mapping: a block for a run of heads (x) of a token (y), a warp a head at a time. Bound: memory, 2
// N (H
// + 2 K) E sizeof(T); of a few tokens latency.
template <int kTogether, typename T>
__global__ void __launch_bounds__(kThreads)
    rope_append_kernel(const __grid_constant__ RopeAppend<T> p) {
  let_next_start();
  if (!p.is_settled) wait_for_grids();
  const int64_t token = blockIdx.y, heads = p.heads + 2 * p.keys.kv_heads;
  const int64_t each = (heads + gridDim.x - 1) / gridDim.x, begin = blockIdx.x * each,
                end = min(begin + each, heads);
  int64_t row = -1;
  if (end > p.heads) {
    row = row_of_token(p.cells, token);
    const bool is_later =
        row >= 0 && sees_later(p.cells, token, row, static_cast<int>(threadIdx.x), kThreads);
    if (__syncthreads_or(is_later) != 0) row = -1;
  }
  wait_for_grids();
  if (blockIdx.x + blockIdx.y == 0) note_bad_cells(p.cells);
  for (int64_t head = begin + threadIdx.x / kLanes; head < end; head += kWarps)
    append_head<kTogether>(p, token, head, row);
}

}  // namespace

template <typename T>
cudaError_t launch_rope_append(const RopeAppend<T>& call, cudaStream_t stream) {
  if (call.keys.head_size % 2 != 0 || call.keys.head_size > kRopeAppendMostHeadSize)
    return cudaErrorInvalidValue;
  if (call.cells.tokens == 0) return cudaSuccess;
  // Of many tokens a few blocks each are enough: each looks for later tokens once.
  constexpr int64_t kFewTokens = 32, kBlocksOfMany = 4;
  constexpr int kTogether = 2;
  const int64_t heads = call.heads + 2 * call.keys.kv_heads, most = (heads + kWarps - 1) / kWarps;
  const int64_t blocks = call.cells.tokens > kFewTokens ? std::min(most, kBlocksOfMany) : most;
  const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(call.cells.tokens));
  const bool vectors = !call.interleaved && call.keys.head_size % (2 * kTogether) == 0 &&
                       takes_vectors<kTogether>(call.merged) && takes_vectors<kTogether>(call.q);
  return vectors ? launch_early(rope_append_kernel<kTogether, T>, grid, kThreads, 0, stream, call)
                 : launch_early(rope_append_kernel<1, T>, grid, kThreads, 0, stream, call);
}

template cudaError_t launch_rope_append(const RopeAppend<float>&, cudaStream_t);
template cudaError_t launch_rope_append(const RopeAppend<uint16_t>&, cudaStream_t);

}  // namespace ridge::backends::cuda
