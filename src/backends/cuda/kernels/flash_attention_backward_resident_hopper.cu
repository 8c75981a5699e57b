// SPDX-License-Identifier: Apache-2.0
// Flash attention backward for Hopper where sequences are short: bf16, head sizes 64 and 128, one
// launch. Long ones are flash_attention_backward_hopper.cu.
//
// A short launch is all latency: so nothing is loaded in turns. A block, one warpgroup, keeps 64
// rows of two operands, a and b, and has all tiles of the two others, c and d, that these rows meet
// copied at once; meanwhile it forms the row statistics (lse in base 2; delta, the product of each
// row of dO and O) of the queries that it meets:
//   key blocks:   rows are keys,    (a, b) = (K, V),  (c, d) = (Q, dO): dV += P^T d, dK += dS^T c,
//   over
//                 all query heads of the group;
//   query blocks: rows are queries, (a, b) = (Q, dO), (c, d) = (K, V):  dQ += dS c.
// The scores are formed twice and nothing is summed across blocks. Bound: the latency of a launch,
// of memory, and of four products and an exponential for each tile of 64 x 64 that the longest key
// block meets.
#include <cuda_bf16.h>

#include "backends/cuda/kernels/flash_attention_hopper_launch.h"
#include "backends/cuda/kernels/flash_attention_score_tile.cuh"
#include "backends/cuda/kernels/flash_attention_wgmma.cuh"

namespace ridge::backends::cuda {
namespace {

using namespace hopper;

constexpr int kRows = 64;  // of every tile
constexpr int kThreads = kWarpgroupThreads;
constexpr int kMostTiles = 8;  // that a block walks

struct BackwardArguments {
  CUtensorMap q, k, v, d_o;
  AttentionInput o, d_o_rows;
  AttentionOutput dq, dk, dv;
  const float* lse;  // [N, H]
  Visibility visibility;
  int batch, heads, kv_heads, blocks;
  float scale;
};

template <int kE>
struct Memory {
  static constexpr int kTileBytes = kRows * kE * 2;
  static constexpr int kHeadBytes = 4 * (2 * kMostTiles * kRows) + 8 * (1 + kMostTiles);
  static constexpr int kTilesOffset = (kHeadBytes + 1023) / 1024 * 1024;
  static constexpr int bytes(int tiles) { return kTilesOffset + 2 * (1 + tiles) * kTileBytes; }

  uint32_t base;
  __device__ uint32_t minus_lse(int tile) const { return base + 4 * kRows * tile; }
  __device__ uint32_t minus_delta(int tile) const { return minus_lse(kMostTiles + tile); }
  __device__ uint32_t full(int tile) const {
    return base + 4 * (2 * kMostTiles * kRows) + 8 * (1 + tile);  // -1: the block's own
  }
  __device__ uint32_t own(int operand) const { return base + kTilesOffset + operand * kTileBytes; }
  __device__ uint32_t walked(int operand, int tile) const {
    return base + kTilesOffset + (2 * (1 + tile) + operand) * kTileBytes;
  }
};

// What a block does: its rows, and the tiles it walks, head by head.
template <bool kOwnsKeys>
struct Work {
  int batch, head, first, begin, count, tiles, group;

  // Of each kind of block the longest first where causal: early keys, late queries.
  __device__ __forceinline__ Work(const BackwardArguments& p, int index) {
    const int heads = kOwnsKeys ? p.kv_heads : p.heads, flat = index % (p.batch * heads),
              rank = index / (p.batch * heads);
    batch = flat / heads;
    head = flat % heads;
    first = (kOwnsKeys ? rank : p.blocks - 1 - rank) * kRows;
    const int last = min(first + kRows, p.visibility.sequence) - 1;
    const BlockRange range = kOwnsKeys ? query_blocks(p.visibility, first, last, kRows)
                                       : key_blocks(p.visibility, first, last, kRows);
    group = p.heads / p.kv_heads;
    begin = range.begin;
    count = max(range.end - range.begin, 0);
    tiles = kOwnsKeys ? count * group : count;
  }
  __device__ __forceinline__ int walked_head(int tile) const {
    return kOwnsKeys ? head * group + tile / count : head / group;
  }
  __device__ __forceinline__ int walked_row(int tile) const {
    return (begin + tile % count) * kRows;
  }
};

template <int kE, bool kOwnsKeys>
__device__ __forceinline__ void copy_all(const BackwardArguments& p,
                                         const Memory<kE>& memory,
                                         const Work<kOwnsKeys>& work) {
  const CUtensorMap *a = kOwnsKeys ? &p.k : &p.q, *b = kOwnsKeys ? &p.v : &p.d_o,
                    *c = kOwnsKeys ? &p.q : &p.k, *d = kOwnsKeys ? &p.d_o : &p.v;
  barrier_expect(memory.full(-1), 2 * Memory<kE>::kTileBytes);
  copy_in(memory.own(0), a, memory.full(-1), work.first, work.head, work.batch);
  copy_in(memory.own(1), b, memory.full(-1), work.first, work.head, work.batch);
  for (int tile = 0; tile < work.tiles; ++tile) {
    const int head = work.walked_head(tile), row = work.walked_row(tile);
    barrier_expect(memory.full(tile), 2 * Memory<kE>::kTileBytes);
    copy_in(memory.walked(0, tile), c, memory.full(tile), row, head, work.batch);
    copy_in(memory.walked(1, tile), d, memory.full(tile), row, head, work.batch);
  }
}

__device__ __forceinline__ float dot(uint4 x, uint4 y) {
  const uint32_t a[4] = {x.x, x.y, x.z, x.w}, b[4] = {y.x, y.y, y.z, y.w};
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    sum = fmaf(__uint_as_float(a[i] << 16), __uint_as_float(b[i] << 16), sum);
    sum = fmaf(__uint_as_float(a[i] & 0xffff0000u), __uint_as_float(b[i] & 0xffff0000u), sum);
  }
  return sum;
}

// The statistics of 64 queries of a head, to place `tile`. A row takes kE / 8 lanes.
template <int kE>
__device__ __forceinline__ void row_statistics(const BackwardArguments& p,
                                               const Memory<kE>& memory,
                                               int batch,
                                               int head,
                                               int first,
                                               int tile) {
  constexpr int kLanes = kE / 8, kAtOnce = kThreads / kLanes, kTurns = kRows / kAtOnce;
  const int thread = static_cast<int>(threadIdx.x), sequence = p.visibility.sequence;
  const int64_t token = static_cast<int64_t>(batch) * sequence;
  const auto* o = static_cast<const __nv_bfloat16*>(p.o.data) + token * p.o.token_stride +
                  head * p.o.head_stride + thread % kLanes * 8;
  const auto* d_o = static_cast<const __nv_bfloat16*>(p.d_o_rows.data) +
                    token * p.d_o_rows.token_stride + head * p.d_o_rows.head_stride +
                    thread % kLanes * 8;
  uint4 x[kTurns], y[kTurns];
#pragma unroll
  for (int i = 0; i < kTurns; ++i) {
    const int query = first + i * kAtOnce + thread / kLanes;
    x[i] = y[i] = make_uint4(0, 0, 0, 0);
    if (query < sequence) {
      x[i] = *reinterpret_cast<const uint4*>(o + query * p.o.token_stride);
      y[i] = *reinterpret_cast<const uint4*>(d_o + query * p.d_o_rows.token_stride);
    }
  }
  if (thread < kRows) {
    const int query = first + thread;
    const float lse =
        query < sequence ? -p.lse[(token + query) * p.heads + head] * kLog2E : kNoScore;
    store_shared_int(memory.minus_lse(tile) + 4 * thread, __float_as_int(lse));
  }
#pragma unroll
  for (int i = 0; i < kTurns; ++i) {
    float sum = dot(x[i], y[i]);
#pragma unroll
    for (int step = kLanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (thread % kLanes == 0)
      store_shared_int(memory.minus_delta(tile) + 4 * (i * kAtOnce + thread / kLanes),
                       __float_as_int(-sum));
  }
}

// d[64, 64] = the products of the rows of two tiles.
template <int kE>
__device__ __forceinline__ void score_product(float (&d)[32], uint32_t own, uint32_t walked) {
#pragma unroll
  for (int step = 0; step < kE / 16; ++step)
    Product<64>::shared<0, 0>(d, by_columns(own) + column_step<kRows>(step),
                              by_columns(walked) + column_step<kRows>(step), step > 0);
}

struct Packed {
  uint32_t words[16];
  __device__ __forceinline__ explicit Packed(const float (&w)[32]) {
#pragma unroll
    for (int i = 0; i < 16; ++i) words[i] = pack_bf16(w[2 * i], w[2 * i + 1]);
  }
};

// x[64, kE] += w times the rows of a tile.
template <int kE>
__device__ __forceinline__ void add_weighted(float (&x)[kE / 2], const Packed& w, uint32_t walked) {
#pragma unroll
  for (int step = 0; step < kRows / 16; ++step)
    Product<kE>::template registers<1>(x, w.words + 4 * step,
                                       by_rows(walked, kRows) + row_step(step), 1);
}

// Rows g and g + 8 of a warp's sixteen, two columns a thread at a time.
template <int kE>
__device__ __forceinline__ void store_rows(const AttentionOutput& to,
                                           int64_t first_token,
                                           int head,
                                           int first,
                                           int sequence,
                                           const float (&x)[kE / 2],
                                           float scale) {
  const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = first + thread / 32 * 16 + thread % 32 / 4 + 8 * r;
    if (row >= sequence) continue;
    auto* line = static_cast<__nv_bfloat16*>(to.data) + (first_token + row) * to.token_stride +
                 head * to.head_stride + thread % 4 * 2;
#pragma unroll
    for (int j = 0; j < kE / 8; ++j)
      *reinterpret_cast<uint32_t*>(line + 8 * j) =
          pack_bf16(x[4 * j + 2 * r] * scale, x[4 * j + 2 * r + 1] * scale);
  }
}

template <int kE, bool kOwnsKeys>
__device__ __forceinline__ void run_block(const BackwardArguments& p,
                                          const Memory<kE>& memory,
                                          int index) {
  const Work<kOwnsKeys> work(p, index);
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) {
    for (int tile = -1; tile < work.tiles; ++tile) barrier_init(memory.full(tile), 1);
    barrier_init_fence();
    copy_all(p, memory, work);
  }
  if constexpr (kOwnsKeys) {
    for (int tile = 0; tile < work.tiles; ++tile)
      row_statistics(p, memory, work.batch, work.walked_head(tile), work.walked_row(tile), tile);
  } else {
    row_statistics(p, memory, work.batch, work.head, work.first, 0);
  }
  __syncthreads();
  float minus_lse[2], minus_delta[2];
  if constexpr (!kOwnsKeys) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int place = 4 * (thread / 32 * 16 + thread % 32 / 4 + 8 * r);
      minus_lse[r] = __int_as_float(load_shared_int(memory.minus_lse(0) + place));
      minus_delta[r] = __int_as_float(load_shared_int(memory.minus_delta(0) + place));
    }
  }
  float of_a[kE / 2] = {}, of_b[kOwnsKeys ? kE / 2 : 1] = {};
  barrier_wait(memory.full(-1), 0);
  for (int tile = 0; tile < work.tiles; ++tile) {
    const int row = work.walked_row(tile);
    const bool is_whole = (kOwnsKeys ? TileSight(p.visibility, row, kRows, work.first, kRows)
                                     : TileSight(p.visibility, work.first, kRows, row, kRows))
                              .whole;
    barrier_wait(memory.full(tile), 0);
    float s[32], dp[32];
    product_fence();
    score_product<kE>(s, memory.own(0), memory.walked(0, tile));
    score_product<kE>(dp, memory.own(1), memory.walked(1, tile));
    product_commit();
    product_wait<0>();
    pin(s);
    pin(dp);
    if constexpr (kOwnsKeys) {
      const uint32_t place = 4 * (2 * (thread % 4));
      score_gradients<true, kRows>(
          s, dp, p.scale * kLog2E, is_whole, p.visibility, work.first, row,
          OfColumns{memory.minus_lse(tile) + place, memory.minus_delta(tile) + place});
    } else {
      score_gradients<false, kRows>(s, dp, p.scale * kLog2E, is_whole, p.visibility, work.first,
                                    row, OfRows{minus_lse, minus_delta});
    }
    const Packed gradients(dp), probabilities(s);
    product_fence();
    add_weighted<kE>(of_a, gradients, memory.walked(0, tile));
    if constexpr (kOwnsKeys) add_weighted<kE>(of_b, probabilities, memory.walked(1, tile));
    product_commit();
    product_wait<0>();
    pin(of_a);
    if constexpr (kOwnsKeys) pin(of_b);
  }
  const int64_t token = static_cast<int64_t>(work.batch) * p.visibility.sequence;
  const int sequence = p.visibility.sequence;
  store_rows<kE>(kOwnsKeys ? p.dk : p.dq, token, work.head, work.first, sequence, of_a, p.scale);
  if constexpr (kOwnsKeys) store_rows<kE>(p.dv, token, work.head, work.first, sequence, of_b, 1.0f);
}

template <int kE>
__global__ void __launch_bounds__(kThreads, 2)
    flash_attention_backward_resident_kernel(const __grid_constant__ BackwardArguments p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) uint8_t shared[];
  const Memory<kE> memory{shared_address(shared)};
  const int index = static_cast<int>(blockIdx.x), of_keys = p.batch * p.kv_heads * p.blocks;
  if (index < of_keys)
    run_block<kE, true>(p, memory, index);
  else
    run_block<kE, false>(p, memory, index - of_keys);
#else
  __trap();
#endif
}

// Tiles of c and d that a block meets at most: of the key blocks, whose group of heads walks.
int most_tiles(const AttentionExtents& extents) {
  return ceil_div(static_cast<int>(extents.sequence), kRows) *
         static_cast<int>(extents.heads / extents.kv_heads);
}

template <int kE>
cudaError_t launch(const BackwardArguments& p, int tiles, cudaStream_t stream) {
  return launch_kernel(flash_attention_backward_resident_kernel<kE>,
                       p.batch * (p.kv_heads + p.heads) * p.blocks, kThreads,
                       Memory<kE>::bytes(tiles), p, stream);
}

}  // namespace

bool fits_backward_resident(const AttentionExtents& extents) {
  constexpr int64_t kMostRows = 256;  // beyond, forming the scores twice costs more than waiting
  constexpr int kMostBytes = 113 * 1024;  // half of a multiprocessor's shared memory
  if (extents.sequence > kMostRows || extents.heads / extents.kv_heads > kMostTiles) return false;
  const int tiles = most_tiles(extents);
  if (tiles > kMostTiles) return false;
  return extents.head_size == 64    ? Memory<64>::bytes(tiles) <= kMostBytes
         : extents.head_size == 128 ? Memory<128>::bytes(tiles) <= 2 * kMostBytes
                                    : false;
}

cudaError_t launch_flash_attention_backward_resident(const AttentionExtents& extents,
                                                     const AttentionBackward& x,
                                                     cudaStream_t stream) {
  BackwardArguments p{};
  const bool mapped = encode_tokens(&p.q, x.q, extents, extents.heads, kRows, kAllChunks) &&
                      encode_tokens(&p.k, x.k, extents, extents.kv_heads, kRows, kAllChunks) &&
                      encode_tokens(&p.v, x.v, extents, extents.kv_heads, kRows, kAllChunks) &&
                      encode_tokens(&p.d_o, x.d_o, extents, extents.heads, kRows, kAllChunks);
  if (!mapped) return cudaErrorInvalidValue;
  p.o = x.o;
  p.d_o_rows = x.d_o;
  p.dq = x.dq;
  p.dk = x.dk;
  p.dv = x.dv;
  p.lse = x.lse;
  p.visibility = visibility_of(extents);
  p.batch = static_cast<int>(extents.batch);
  p.heads = static_cast<int>(extents.heads);
  p.kv_heads = static_cast<int>(extents.kv_heads);
  p.blocks = ceil_div(p.visibility.sequence, kRows);
  p.scale = extents.scale;
  const int tiles = most_tiles(extents);
  return extents.head_size == 64 ? launch<64>(p, tiles, stream) : launch<128>(p, tiles, stream);
}

AttentionPairs flash_attention_backward_resident_pairs(const AttentionExtents& extents) {
  return visited_pairs(visibility_of(extents), kRows, kRows, extents.batch * extents.heads);
}

}  // namespace ridge::backends::cuda
