// SPDX-License-Identifier: Apache-2.0
// Flash attention backward for fp32 operands in TF32 on Hopper, head sizes 64 and 128. The forward
// pass is in forward_tf32.cu.
//
// Two launches of one kernel, the second of which fills the tail of the first. A warpgroup keeps 64
// rows of two operands, a and b, and iterates over tiles of two others, c and d, which one more
// warp prefetches:
//   query pass: rows are queries, (a, b) = (Q, dO), (c, d) = (K, V):  dQ += dS c; it first computes
//               the row statistics, lse in base 2 and delta, the product of each row of dO and O;
//   key pass:   rows are keys,    (a, b) = (K, V),  (c, d) = (Q, dO): dV += P^T d, dK += dS^T c,
//               over all query heads of the group, with the statistics of the query pass.
// S is computed from a and c, dP from b and d in both passes, so the scores are computed twice and
// nothing is summed across blocks. Bound: 14 E FLOPs per visited pair at the TF32 rate; at head
// size 128 shared memory delivers the operands at two thirds of that.
#include "backends/cuda/kernels/flash_attention/hopper/launch.h"
#include "backends/cuda/kernels/flash_attention/hopper/score_tile.cuh"
#include "backends/cuda/kernels/flash_attention/hopper/tf32.cuh"

namespace ridge::backends::cuda {
namespace {

using namespace hopper;

struct BackwardArguments {
  CUtensorMap a, b, c, d;
  AttentionInput o;
  AttentionOutput of_a, of_b;  // the gradients of a and, in the key pass, b
  const float* lse;            // [N, H]
  float* minus_lse;            // [B H, padded], times log2(e); minus infinity past the sequence
  float* minus_delta;          // [B H, padded]
  DocumentVisibility visibility;
  int heads, kv_heads, own_heads, blocks, padded;
  float scale;
};

constexpr int kSlots = 2;

template <int kHeadSize, int kWarpgroups, bool kKeyPass>
struct BackwardTile {
  static constexpr int kE = kHeadSize;
  static constexpr int kGroups = kWarpgroups;
  static constexpr bool kOwnsKeys = kKeyPass;
  static constexpr int kStreamRows = kE == 64 ? 64 : 32;
  // The copying warp belongs to a whole warpgroup if it must hand registers over.
  static constexpr bool kHandsOver = kGroups == 2;
  static constexpr int kThreads = kGroups * kWarpgroupThreads + (kHandsOver ? 128 : 32);
  static constexpr int kRows = kGroups * kOwnRows;

  using Own = WordTile<kOwnRows, kE>;
  using Streamed = WordTile<kStreamRows, kE>;
  static constexpr int kWeightBytes = kOwnRows * kStreamRows * 4;
  static constexpr int kWeightTiles = kOwnsKeys ? 2 : 1;
  static constexpr int kStatisticsBytes =
      kOwnsKeys ? 4 * kStreamRows : 0;  // each for lse and delta

  static constexpr int kOwnOffset = 0;
  static constexpr int kStreamedOffset = kOwnOffset + 2 * kGroups * Own::kBytes;
  static constexpr int kWeightOffset = kStreamedOffset + 2 * kSlots * Streamed::kBytes;
  static constexpr int kStatisticsOffset = kWeightOffset + kGroups * kWeightTiles * kWeightBytes;
  static constexpr int kBarrierOffset = kStatisticsOffset + 2 * kSlots * kStatisticsBytes;
  static constexpr int kDeltaOffset = kBarrierOffset + 64;
  static constexpr int kSharedBytes = kDeltaOffset + 4 * kRows;
  static_assert(kSharedBytes <= 232448, "a block's shared memory");
  static constexpr int kBlocksPerSm = kSharedBytes <= 113 * 1024 ? 2 : 1;

  uint32_t base;
  __device__ uint32_t own(int operand, int group) const {
    return base + kOwnOffset + (operand * kGroups + group) * Own::kBytes;
  }
  __device__ uint32_t streamed(int operand, int slot) const {
    return base + kStreamedOffset + (2 * slot + operand) * Streamed::kBytes;
  }
  __device__ uint32_t weights(int operand, int group) const {
    return base + kWeightOffset + (kWeightTiles * group + operand) * kWeightBytes;
  }
  __device__ uint32_t statistics(int kind, int slot) const {
    return base + kStatisticsOffset + (2 * slot + kind) * kStatisticsBytes;
  }
  __device__ uint32_t own_full() const { return base + kBarrierOffset; }
  __device__ uint32_t full(int slot) const { return base + kBarrierOffset + 8 + 16 * slot; }
  __device__ uint32_t empty(int slot) const { return base + kBarrierOffset + 16 + 16 * slot; }
  __device__ uint32_t delta(int group) const { return base + kDeltaOffset + 4 * kOwnRows * group; }
};

// The work of a block: its rows, and the tiles that it iterates over, head by head.
template <class Tile>
struct BackwardBlock {
  int batch, head, first, begin, count, steps, group;

  __device__ __forceinline__ explicit BackwardBlock(const BackwardArguments& p) {
    const int index = static_cast<int>(blockIdx.x), rank = index / p.own_heads,
              flat = index % p.own_heads;
    const int heads = Tile::kOwnsKeys ? p.kv_heads : p.heads;
    batch = flat / heads;
    head = flat % heads;
    // For causal attention the longest blocks come first: early keys, late queries.
    first = (Tile::kOwnsKeys ? rank : p.blocks - 1 - rank) * Tile::kRows;
    const int last = min(first + Tile::kRows, p.visibility.sequence) - 1;
    const DocumentVisibility visibility = p.visibility.in_row(batch);
    const BlockRange range = Tile::kOwnsKeys
                                 ? query_blocks(visibility, first, last, Tile::kStreamRows)
                                 : key_blocks(visibility, first, last, Tile::kStreamRows);
    group = p.heads / p.kv_heads;
    begin = range.begin;
    count = max(range.end - range.begin, 0);
    steps = Tile::kOwnsKeys ? count * group : count;
  }
  __device__ __forceinline__ int streamed_head(int step) const {
    return Tile::kOwnsKeys ? head * group + step / count : head / group;
  }
  __device__ __forceinline__ int streamed_row(int step) const {
    return (begin + step % count) * Tile::kStreamRows;
  }
};

template <class Tile>
__device__ __forceinline__ void copy_ahead(const BackwardArguments& p, const Tile& tile) {
  const BackwardBlock<Tile> work(p);
  barrier_expect(tile.own_full(), 2 * Tile::kGroups * Tile::Own::kBytes);
#pragma unroll
  for (int group = 0; group < Tile::kGroups; ++group) {
    const int row = work.first + group * kOwnRows;
    copy_in(tile.own(0, group), &p.a, tile.own_full(), row, work.head, work.batch);
    copy_in(tile.own(1, group), &p.b, tile.own_full(), row, work.head, work.batch);
  }
  Ring<kSlots> ring;
  for (int step = 0; step < work.steps; ++step) {
    const int head = work.streamed_head(step), row = work.streamed_row(step), slot = ring.slot;
    const uint32_t full = tile.full(slot);
    barrier_wait(tile.empty(slot), ring.parity ^ 1);
    barrier_expect(full, 2 * (Tile::Streamed::kBytes + Tile::kStatisticsBytes));
    copy_in(tile.streamed(0, slot), &p.c, full, row, head, work.batch);
    copy_in(tile.streamed(1, slot), &p.d, full, row, head, work.batch);
    if constexpr (Tile::kOwnsKeys) {
      const int64_t place = static_cast<int64_t>(work.batch * p.heads + head) * p.padded + row;
      copy_in_flat(tile.statistics(0, slot), p.minus_lse + place, Tile::kStatisticsBytes, full);
      copy_in_flat(tile.statistics(1, slot), p.minus_delta + place, Tile::kStatisticsBytes, full);
    }
    ring.advance();
  }
}

// Computes the statistics of a warp's 16 queries. Writes them to memory for the other pass, and
// those of rows g and g + 8 to `minus_lse` and `minus_delta`. A row takes kE / 4 lanes with 16
// bytes of o each; dO is operand b.
template <class Tile>
__device__ __forceinline__ void row_statistics(const BackwardArguments& p,
                                               const Tile& tile,
                                               const BackwardBlock<Tile>& work,
                                               int group,
                                               const DepthOrder& at,
                                               float (&minus_lse)[2],
                                               float (&minus_delta)[2]) {
  constexpr int kLanes = Tile::kE / 4, kAtOnce = 32 / kLanes, kRounds = 16 / kAtOnce;
  const int lane = static_cast<int>(threadIdx.x) % 32, sequence = p.visibility.sequence;
  const int first = work.first + group * kOwnRows + 16 * at.warp;
  const int64_t token = static_cast<int64_t>(work.batch) * sequence;
  const float* o = static_cast<const float*>(p.o.data) + token * p.o.token_stride +
                   work.head * p.o.head_stride + lane % kLanes * 4;
  float4 row[kRounds];
#pragma unroll
  for (int i = 0; i < kRounds; ++i) {
    const int query = first + i * kAtOnce + lane / kLanes;
    row[i] = query < sequence ? *reinterpret_cast<const float4*>(o + query * p.o.token_stride)
                              : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int query = first + at.group + 8 * r;
    minus_lse[r] =
        query < sequence ? -p.lse[(token + query) * p.heads + work.head] * kLog2E : kNoScore;
  }
  barrier_wait(tile.own_full(), 0);
#pragma unroll
  for (int i = 0; i < kRounds; ++i) {
    const int place = 16 * at.warp + i * kAtOnce + lane / kLanes;
    const float4 d_o =
        load_shared_float4(Tile::Own::vector(tile.own(1, group), place, lane % kLanes * 4));
    float sum = row[i].x * d_o.x + row[i].y * d_o.y + row[i].z * d_o.z + row[i].w * d_o.w;
#pragma unroll
    for (int step = kLanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (lane % kLanes == 0) store_word(tile.delta(group) + 4 * place, -sum);
  }
  __syncwarp();
  const int64_t rows = static_cast<int64_t>(work.batch * p.heads + work.head) * p.padded;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int place = 16 * at.warp + at.group + 8 * r;
    minus_delta[r] = __uint_as_float(load_word(tile.delta(group) + 4 * place));
    const int query = work.first + group * kOwnRows + place;
    if (at.place == 0 && query < p.padded) {
      p.minus_lse[rows + query] = minus_lse[r];
      p.minus_delta[rows + query] = minus_delta[r];
    }
  }
}

template <class Tile>
__device__ __forceinline__ void consume(const BackwardArguments& p, const Tile& tile) {
  constexpr int kE = Tile::kE, kStreamRows = Tile::kStreamRows;
  const BackwardBlock<Tile> work(p);
  const int group = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / kWarpgroupThreads, 0);
  const DepthOrder at(static_cast<int>(threadIdx.x) % kWarpgroupThreads);
  const int own = work.first + group * kOwnRows;
  const float scale_log2 = p.scale * kLog2E;
  const DocumentVisibility visibility = p.visibility.in_row(work.batch);
  float minus_lse[2], minus_delta[2];
  if constexpr (Tile::kOwnsKeys)
    barrier_wait(tile.own_full(), 0);
  else
    row_statistics(p, tile, work, group, at, minus_lse, minus_delta);

  float of_a[kE / 64][32] = {}, of_b[Tile::kOwnsKeys ? kE / 64 : 1][32] = {};
  Ring<kSlots> ring;
  for (int step = 0; step < work.steps; ++step, ring.advance()) {
    const int slot = ring.slot, row = work.streamed_row(step);
    const TileSight sight = Tile::kOwnsKeys
                                ? TileSight(visibility, row, kStreamRows, own, kOwnRows)
                                : TileSight(visibility, own, kOwnRows, row, kStreamRows);
    barrier_wait(tile.full(slot), ring.parity);
    if (!sight.none) {
      float s[kStreamRows / 2], dp[kStreamRows / 2];
      product_fence();
      score_product<kE, kStreamRows>(s, tile.own(0, group), tile.streamed(0, slot));
      product_commit();
      score_product<kE, kStreamRows>(dp, tile.own(1, group), tile.streamed(1, slot));
      product_commit();
      const auto statistics = [&] {
        if constexpr (Tile::kOwnsKeys)
          return OfColumns{tile.statistics(0, slot) + 8 * at.place,
                           tile.statistics(1, slot) + 8 * at.place};
        else
          return OfRows{minus_lse, minus_delta};
      }();
      product_wait<1>();
      pin(s);
      probabilities<Tile::kOwnsKeys, kStreamRows>(s, scale_log2, sight.whole, visibility, own, row,
                                                  statistics);
      TransposedProduct<kE, kStreamRows> to_a, to_b;
      if constexpr (Tile::kOwnsKeys) {
        // Wait until the products of the previous step have read the weights, in all warps.
        named_sync(1 + group, kWarpgroupThreads);
        store_weights<kStreamRows>(tile.weights(1, group), s, at);
        shared_writes_to_async();
        to_b.load(tile.streamed(1, slot), at);
        product_wait<0>();
        pin(dp);
        named_sync(1 + group, kWarpgroupThreads);
        product_fence();
        to_b.run(of_b, tile.weights(1, group));
      } else {
        product_wait<0>();
        pin(dp);
        named_sync(1 + group, kWarpgroupThreads);
      }
      score_gradients<kStreamRows>(dp, s, statistics);
      store_weights<kStreamRows>(tile.weights(0, group), dp, at);
      shared_writes_to_async();
      to_a.load(tile.streamed(0, slot), at);
      named_sync(1 + group, kWarpgroupThreads);
      product_fence();
      to_a.run(of_a, tile.weights(0, group));
      product_wait<0>();
#pragma unroll
      for (int m = 0; m < kE / 64; ++m) {
        pin(of_a[m]);
        if constexpr (Tile::kOwnsKeys) pin(of_b[m]);
      }
    }
    barrier_arrive(tile.empty(slot));
  }
  const int64_t token = static_cast<int64_t>(work.batch) * p.visibility.sequence;
  store_transposed<kE>(p.of_a, token, work.head, own, p.visibility.sequence, of_a, at,
                       [&](int) { return p.scale; });
  if constexpr (Tile::kOwnsKeys)
    store_transposed<kE>(p.of_b, token, work.head, own, p.visibility.sequence, of_b, at,
                         [](int) { return 1.0f; });
}

template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    flash_attention_backward_tf32_kernel(const __grid_constant__ BackwardArguments p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) uint8_t shared[];
  if constexpr (!Tile::kOwnsKeys) grid_launch_dependents();
  const Tile tile{shared_address(shared)};
  if (threadIdx.x == 0) {
    barrier_init(tile.own_full(), 1);
    for (int slot = 0; slot < kSlots; ++slot) {
      barrier_init(tile.full(slot), 1);
      barrier_init(tile.empty(slot), Tile::kGroups * kWarpgroupThreads);
    }
    barrier_init_fence();
  }
  __syncthreads();
  if constexpr (Tile::kOwnsKeys) grid_wait();
  if (threadIdx.x >= Tile::kGroups * kWarpgroupThreads) {
    if constexpr (Tile::kHandsOver) give_registers<24>();
    if (threadIdx.x == Tile::kGroups * kWarpgroupThreads) copy_ahead(p, tile);
  } else {
    if constexpr (Tile::kHandsOver) take_registers<240>();
    consume(p, tile);
  }
#else
  __trap();
#endif
}

int padded_rows(const AttentionExtents& extents) {
  return ceil_div(static_cast<int>(extents.sequence), 64) * 64;
}

template <class Tile>
cudaError_t launch(BackwardArguments p, const AttentionExtents& extents, cudaStream_t stream) {
  p.own_heads = static_cast<int>(extents.batch) * (Tile::kOwnsKeys ? p.kv_heads : p.heads);
  p.blocks = ceil_div(p.visibility.sequence, Tile::kRows);
  return launch_kernel(flash_attention_backward_tf32_kernel<Tile>, p.own_heads * p.blocks,
                       Tile::kThreads, Tile::kSharedBytes, p, stream,
                       Tile::kOwnsKeys ? kAfterTrigger : kInTurn);
}

// Two warpgroups share the tiles that they iterate over; if that leaves multiprocessors idle, a
// block has one warpgroup.
template <int kE, bool kOwnsKeys>
cudaError_t launch_pass(BackwardArguments p,
                        const AttentionExtents& extents,
                        const AttentionBackward& x,
                        cudaStream_t stream) {
  const AttentionInput &a = kOwnsKeys ? x.k : x.q, &b = kOwnsKeys ? x.v : x.d_o,
                       &c = kOwnsKeys ? x.q : x.k, &d = kOwnsKeys ? x.d_o : x.v;
  const int64_t own = kOwnsKeys ? extents.kv_heads : extents.heads,
                streamed = kOwnsKeys ? extents.heads : extents.kv_heads;
  constexpr int kStreamRows = BackwardTile<kE, 1, kOwnsKeys>::kStreamRows;
  const bool mapped =
      encode_tokens(&p.a, a, extents, own, kOwnRows, kAllChunks, DType::kF32) &&
      encode_tokens(&p.b, b, extents, own, kOwnRows, kAllChunks, DType::kF32) &&
      encode_tokens(&p.c, c, extents, streamed, kStreamRows, kAllChunks, DType::kF32) &&
      encode_tokens(&p.d, d, extents, streamed, kStreamRows, kAllChunks, DType::kF32);
  if (!mapped) return cudaErrorInvalidValue;
  p.of_a = kOwnsKeys ? x.dk : x.dq;
  p.of_b = x.dv;
  const int64_t pairs = extents.batch * own * ceil_div(p.visibility.sequence, 2 * kOwnRows);
  return pairs < multiprocessors() ? launch<BackwardTile<kE, 1, kOwnsKeys>>(p, extents, stream)
                                   : launch<BackwardTile<kE, 2, kOwnsKeys>>(p, extents, stream);
}

template <int kE>
cudaError_t launch_passes(const BackwardArguments& p,
                          const AttentionExtents& extents,
                          const AttentionBackward& x,
                          cudaStream_t stream) {
  const cudaError_t status = launch_pass<kE, false>(p, extents, x, stream);
  return status != cudaSuccess ? status : launch_pass<kE, true>(p, extents, x, stream);
}

}  // namespace

int64_t flash_attention_backward_tf32_workspace_bytes(const AttentionExtents& extents) {
  return 2 * extents.batch * extents.heads * padded_rows(extents) * 4;
}

cudaError_t launch_flash_attention_backward_tf32(const AttentionExtents& extents,
                                                 const AttentionBackward& x,
                                                 void* workspace,
                                                 cudaStream_t stream) {
  BackwardArguments p{};
  p.o = x.o;
  p.lse = x.lse;
  p.visibility = visibility_with_documents(extents);
  p.heads = static_cast<int>(extents.heads);
  p.kv_heads = static_cast<int>(extents.kv_heads);
  p.padded = padded_rows(extents);
  p.scale = extents.scale;
  p.minus_lse = static_cast<float*>(workspace);
  p.minus_delta = p.minus_lse + extents.batch * extents.heads * p.padded;
  return extents.head_size == 64 ? launch_passes<64>(p, extents, x, stream)
                                 : launch_passes<128>(p, extents, x, stream);
}

AttentionPairs flash_attention_backward_tf32_pairs(const AttentionExtents& extents) {
  const int stream_rows = extents.head_size == 64 ? 64 : 32;
  return visited_pairs(visibility_of(extents), kOwnRows, stream_rows,
                       extents.batch * extents.heads);
}

}  // namespace ridge::backends::cuda
