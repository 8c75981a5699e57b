// SPDX-License-Identifier: Apache-2.0
// One warp per head; its pairs stay in registers between norm and rotation.
#include "backends/cuda/kernels/cache/rope_append.h"

#include "backends/cuda/kernels/cache/kv_cache.cuh"
#include "backends/cuda/kernels/early_start.cuh"
#include "backends/cuda/kernels/rope/rope_head.cuh"

namespace ridge::backends::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kLanes;
static_assert(kRopeAppendMostHeadSize == kRopeHeadMostSize);
constexpr int64_t kNoHead = INT64_MAX / 2;

// Writes a token's head to its row of q, or, if `row` is one, to that row of the caches. Called by
// all lanes of a warp, also for heads that do not exist.
template <int kPairsAtOnce, typename T, typename C>
__device__ __forceinline__ void store_head(const RopeAppend<T, C>& p,
                                           const HeadPairs<kPairsAtOnce>& pairs,
                                           int64_t token,
                                           int64_t head,
                                           int64_t row,
                                           const HeadShape<kPairsAtOnce>& shape) {
  const int64_t kv_heads = p.keys.kv_heads;
  const bool is_q = head < p.heads, is_key = head < p.heads + kv_heads;
  const bool is_stored = !is_q && row >= 0 && head < p.heads + 2 * kv_heads;
  const Cache<C>& cache = is_key ? p.keys : p.values;
  const int64_t kv_head = head - p.heads - (is_key ? 0 : kv_heads);
  if constexpr (std::is_same_v<T, C>) {
    if (is_stored) pairs.store(cache.head(row, kv_head), shape);
  } else {
    const HeadScale scale = pairs.scale_of(C{}, shape);
    if (is_stored) {
      pairs.store_as_quants(cache.head(row, kv_head), scale, shape);
      if (shape.pair(0) == 0) *cache.scale(row, kv_head) = scale.scale;
    }
  }
  if (is_q) pairs.store(p.q + (token * p.heads + head) * p.keys.head_size, shape);
}

// The cache rows of a block's tokens; -1 for tokens that are not written.
template <int kTokens>
struct TokenRows {
  int64_t of[kTokens];
  int is_later;  // one bit per token: a later token goes to the same row

  // Called by every thread of the block, which checks all later tokens once for all its own tokens.
  __device__ __forceinline__ void find(const CacheCells& cells, int64_t first) {
    const int own = static_cast<int>(threadIdx.x);
    if (own == 0) is_later = 0;
    if (own < kTokens) of[own] = first + own < cells.tokens ? row_of_token(cells, first + own) : -1;
    __syncthreads();
    int mask = 0;
#pragma unroll 4
    for (int64_t other = first + 1 + own; other < cells.tokens; other += kThreads) {
      const int64_t row = row_of_token(cells, other);
      if (row < 0) continue;
#pragma unroll
      for (int i = 0; i < kTokens; ++i) mask |= (row == of[i] && first + i < other ? 1 : 0) << i;
    }
    if (mask != 0) atomicOr(&is_later, mask);
    __syncthreads();
    if (own < kTokens && (is_later >> own & 1) != 0) of[own] = -1;
    __syncthreads();
  }
};

// Mapping: one block per kTokens tokens (y) and range of their heads (x). A warp takes as many
// heads as fit with `lanes` lanes each, kBatch times. Bound: memory, 2 N (H + 2 K) E sizeof(T);
// latency for a few tokens.
template <int kPairsAtOnce, int kBatch, int kTokens, typename T, typename C>
__global__ void __launch_bounds__(kThreads)
    rope_append_kernel(const __grid_constant__ RopeAppend<T, C> p, int lanes) {
  __shared__ TokenRows<kTokens> rows;
  let_next_start();
  if (!p.is_ready_early) wait_for_grids();
  const int64_t first = static_cast<int64_t>(blockIdx.y) * kTokens, kv_heads = p.keys.kv_heads;
  const int heads_at_once = kThreads / lanes;
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * kBatch * heads_at_once,
                end = min(begin + kBatch * heads_at_once, p.heads + 2 * kv_heads);
  if (end > p.heads) rows.find(p.cells, first);
  wait_for_grids();
  note_bad_cells(p.cells);
  const int64_t pairs = p.keys.head_size / 2;
  const HeadShape<kPairsAtOnce> shape{static_cast<int>(pairs), p.interleaved, lanes};
  for (int i = 0; i < kTokens && first + i < p.cells.tokens; ++i) {
    const int64_t token = first + i;
    HeadAngles<kPairsAtOnce> angles;
    angles.load(p.cos + token * pairs, p.sin + token * pairs, shape);
    HeadPairs<kPairsAtOnce> heads[kBatch];
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      const int64_t at = begin + static_cast<int>(threadIdx.x) / lanes + j * heads_at_once;
      if (at < end) heads[j].load(p.merged[token] + at * p.keys.head_size, shape);
    }
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      const int64_t at = begin + static_cast<int>(threadIdx.x) / lanes + j * heads_at_once;
      if (p.q_norm != nullptr) {
        const float* norm = at < p.heads ? p.q_norm : p.k_norm;
        heads[j].norm(norm, p.norm_offset, p.eps, shape, at < p.heads + kv_heads);
      }
      if (at < p.heads + kv_heads) heads[j].rotate(angles);
      store_head(p, heads[j], token, at < end ? at : kNoHead, at < p.heads ? -1 : rows.of[i],
                 shape);
    }
  }
}

template <int kPairsAtOnce, int kBatch, int kTokens, typename T, typename C>
cudaError_t launch_form(const RopeAppend<T, C>& call, int lanes, cudaStream_t stream) {
  const int64_t heads = call.heads + 2 * call.keys.kv_heads, run = kBatch * kThreads / lanes;
  const dim3 grid(static_cast<unsigned>((heads + run - 1) / run),
                  static_cast<unsigned>((call.cells.tokens + kTokens - 1) / kTokens));
  return launch_early(rope_append_kernel<kPairsAtOnce, kBatch, kTokens, T, C>, grid, kThreads, 0,
                      stream, call, lanes);
}

// Whether a head consists of a power of two of vectors with kPairsAtOnce pairs, and all operands
// are aligned for them.
template <int kPairsAtOnce, typename T, typename C>
bool takes_pairs_at_once(const RopeAppend<T, C>& call) {
  const int64_t vectors = call.keys.head_size / 2 / kPairsAtOnce;
  return !call.interleaved && call.keys.head_size % (2 * kPairsAtOnce) == 0 &&
         (vectors & (vectors - 1)) == 0 && takes_vectors<kPairsAtOnce>(call.merged) &&
         takes_vectors<kPairsAtOnce>(call.q) && takes_vectors<kPairsAtOnce>(call.keys.data) &&
         takes_vectors<kPairsAtOnce>(call.values.data) && takes_vectors<kPairsAtOnce>(call.cos) &&
         takes_vectors<kPairsAtOnce>(call.sin);
}

// For chunks of a prompt, kTokens per block.
template <int kTokens, typename T, typename C>
cudaError_t launch_chunk(const RopeAppend<T, C>& call, cudaStream_t stream) {
  constexpr int kPairsAtOnce = 8;
  const int lanes = static_cast<int>(call.keys.head_size / 2 / kPairsAtOnce);
  return takes_pairs_at_once<kPairsAtOnce>(call)
             ? launch_form<kPairsAtOnce, 2, kTokens>(call, lanes, stream)
             : launch_form<1, 4, kTokens>(call, kLanes, stream);
}

}  // namespace

template <typename T, typename C>
cudaError_t launch_rope_append(const RopeAppend<T, C>& call, cudaStream_t stream) {
  if (call.keys.head_size % 2 != 0 || call.keys.head_size > kRopeAppendMostHeadSize)
    return cudaErrorInvalidValue;
  if (call.cells.tokens == 0) return cudaSuccess;
  constexpr int64_t kFewTokens = 32;
  constexpr int kNarrow = 2;
  if (call.cells.tokens <= kFewTokens)
    return takes_pairs_at_once<kNarrow>(call) ? launch_form<kNarrow, 1, 1>(call, kLanes, stream)
                                              : launch_form<1, 1, 1>(call, kLanes, stream);
  // A block processes its tokens one after the other, so each block takes one token until all
  // multiprocessors are full. With more tokens a block takes several, because the search for later
  // tokens costs the same for all of them.
  constexpr int64_t kOneEach = 1024;
  return call.cells.tokens <= kOneEach ? launch_chunk<1>(call, stream)
                                       : launch_chunk<4>(call, stream);
}

template cudaError_t launch_rope_append(const RopeAppend<float>&, cudaStream_t);
template cudaError_t launch_rope_append(const RopeAppend<uint16_t>&, cudaStream_t);
template cudaError_t launch_rope_append(const RopeAppend<uint16_t, int8_t>&, cudaStream_t);
template cudaError_t launch_rope_append(const RopeAppend<uint16_t, F8E4M3>&, cudaStream_t);

}  // namespace ridge::backends::cuda
