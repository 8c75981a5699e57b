// SPDX-License-Identifier: Apache-2.0
// Flash attention backward for Hopper, the query pass that forms the scores again: dQ (bf16, head sizes 64 and 128).
// It needs no memory beyond the row statistics; flash_attention_backward_spilled_hopper.cu is the faster pass that
// reads dS instead.
//
// A block owns 128 queries, 64 a consumer warpgroup, and walks the keys they see: S = Q K^T, dP = dO V^T, then dS is
// in registers the left operand of dQ += dS K. Summation follows the key blocks, so the result is fixed.
//
// Bound: 6 E FLOPs a visited pair at the bf16 rate.
#include "backends/cuda/kernels/flash_attention_backward_hopper.cuh"

namespace ridge::backends::cuda {
namespace {

using namespace hopper;

struct QueriesArguments {
  CUtensorMap q, k, v, d_o, dq;
  RowStatistics statistics;
  int* next_tile;
  TileOrder order;
  Visibility visibility;
  int heads;
  int group;
  float scale;
  float scale_log2;
};

template <int kHeadSizeT, int kKeysT, int kStagesT, bool kTurnsT>
struct QueriesTile {
  static constexpr int kHeadSize = kHeadSizeT;
  static constexpr int kKeys = kKeysT;
  static constexpr int kStages = kStagesT;
  static constexpr bool kTurns = kTurnsT;
  static constexpr int kQueries = 128;
  static constexpr int kWarpgroups = 2;
  static constexpr int kThreads = 384;
  static constexpr int kQueryBytes = kQueries * kHeadSize * 2;
  static constexpr int kKeyBytes = kKeys * kHeadSize * 2;
  static constexpr int kGradientOffset = kQueryBytes;
  static constexpr int kKeyOffset = 2 * kQueryBytes;
  static constexpr int kValueOffset = kKeyOffset + kStages * kKeyBytes;
  static constexpr int kBarrierOffset = kValueOffset + kStages * kKeyBytes;
  static constexpr int kSharedBytes = kBarrierOffset + 256;
  static_assert(kSharedBytes <= 232448);
};

template <class Tile>
struct QueriesBarriers {
  uint64_t q_full, q_empty;
  uint64_t k_full[Tile::kStages], k_empty[Tile::kStages];
  uint64_t v_full[Tile::kStages], v_empty[Tile::kStages];
  TileSlots slots;
};

template <class Tile>
__device__ __forceinline__ BlockRange tile_keys(const QueriesArguments& p, int block) {
  const int first = block * Tile::kQueries;
  return key_blocks(p.visibility, first, first + Tile::kQueries - 1, Tile::kKeys);
}

template <class Tile>
__device__ __forceinline__ void produce(const QueriesArguments& p,
                                        uint8_t* shared,
                                        QueriesBarriers<Tile>& barriers) {
  Ring<2> turn;
  Ring<Tile::kStages> ring;
  uint32_t q_parity = 0;
  int index = blockIdx.x;
  while (true) {
    barrier_wait(&barriers.slots.empty[turn.slot], turn.parity ^ 1);
    barriers.slots.tile[turn.slot] = index;
    barrier_arrive(&barriers.slots.full[turn.slot]);
    turn.advance();
    if (index >= p.order.tiles()) break;
    int flat_head, block;
    p.order.locate(index, &flat_head, &block);
    const int batch = flat_head / p.heads;
    const int head = flat_head - batch * p.heads;
    const int kv_head = head / p.group;
    const BlockRange keys = tile_keys<Tile>(p, block);
    barrier_wait(&barriers.q_empty, q_parity ^ 1);
    q_parity ^= 1;
    barrier_expect(&barriers.q_full, 2 * Tile::kQueryBytes);
    copy_in(shared, &p.q, &barriers.q_full, block * Tile::kQueries, head, batch);
    copy_in(shared + Tile::kGradientOffset, &p.d_o, &barriers.q_full, block * Tile::kQueries, head, batch);
    for (int n = keys.end - 1; n >= keys.begin; --n) {
      barrier_wait(&barriers.k_empty[ring.slot], ring.parity ^ 1);
      barrier_expect(&barriers.k_full[ring.slot], Tile::kKeyBytes);
      copy_in(shared + Tile::kKeyOffset + ring.slot * Tile::kKeyBytes, &p.k, &barriers.k_full[ring.slot],
              n * Tile::kKeys, kv_head, batch);
      barrier_wait(&barriers.v_empty[ring.slot], ring.parity ^ 1);
      barrier_expect(&barriers.v_full[ring.slot], Tile::kKeyBytes);
      copy_in(shared + Tile::kValueOffset + ring.slot * Tile::kKeyBytes, &p.v, &barriers.v_full[ring.slot],
              n * Tile::kKeys, kv_head, batch);
      ring.advance();
    }
    index = p.next_tile != nullptr ? static_cast<int>(gridDim.x) + atomicAdd(p.next_tile, 1)
                                   : index + static_cast<int>(gridDim.x);
  }
}

template <class Tile>
struct Consumer {
  static constexpr int kScores = Tile::kKeys / 2;
  static constexpr int kGradient = Tile::kHeadSize / 2;

  const QueriesArguments& p;
  uint8_t* shared;
  QueriesBarriers<Tile>& barriers;
  int warpgroup;
  int thread;
  Ring<Tile::kStages> ring{};
  uint32_t q_parity = 0;

  __device__ __forceinline__ void arrive(uint64_t* barrier) const {
    if (thread % 32 == 0) barrier_arrive(barrier);
  }
  __device__ __forceinline__ uint8_t* key_tile(int slot) const {
    return shared + Tile::kKeyOffset + slot * Tile::kKeyBytes;
  }

  // d[64 queries, kKeys] = rows(64 of `queries`) times rows(keys)^T
  __device__ __forceinline__ void scores(float (&d)[kScores], const uint8_t* queries, const uint8_t* keys) {
    const uint64_t a = by_columns(queries + warpgroup * 64 * kRowBytes);
    const uint64_t b = by_columns(keys);
#pragma unroll
    for (int i = 0; i < Tile::kHeadSize / 16; ++i) {
      Product<Tile::kKeys>::template shared<0, 0>(d, a + column_step<Tile::kQueries>(i),
                                                  b + column_step<Tile::kKeys>(i), i != 0);
    }
    product_commit();
  }

  __device__ __forceinline__ void accumulate(float (&dq)[kGradient],
                                             const uint32_t (&ds)[kScores / 2],
                                             const uint8_t* keys) {
    const uint64_t b = by_rows(keys, Tile::kKeys);
#pragma unroll
    for (int i = 0; i < Tile::kKeys / 16; ++i) {
      Product<Tile::kHeadSize>::template registers<1>(dq, ds + 4 * i, b + row_step(i), 1);
    }
    product_commit();
  }

  __device__ __forceinline__ void hide(float (&s)[kScores], int row, int column) const {
    const Visibility& v = p.visibility;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int query = row + 8 * r;
      const int end = v.causal ? min(v.sequence, query + 1) : v.sequence;
      const int begin = v.window > 0 ? query - v.window + 1 : 0;
#pragma unroll
      for (int j = 0; j < kScores; j += 4) {
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          const int key = column + 2 * j + c;
          if (key >= end || key < begin) s[j + 2 * r + c] = -__builtin_huge_valf();
        }
      }
    }
  }

  // Key blocks from the last. For block i the tensor cores get dQ of block i - 1, S_i, dP_i; P_i is formed beside
  // dP_i, and nothing is in flight across the loop's edge.
  __device__ __forceinline__ void walk(int flat_head, int block) {
    const int first = block * Tile::kQueries + warpgroup * 64;
    const int row = first + (thread / 32) * 16 + (thread % 32) / 4;
    const BlockRange keys = tile_keys<Tile>(p, block);
    const BlockRange whole = whole_key_blocks(p.visibility, first, first + 63, Tile::kKeys);
    const int64_t rows = static_cast<int64_t>(flat_head) * p.statistics.padded + row;
    const float lse[2] = {p.statistics.lse_log2[rows], p.statistics.lse_log2[rows + 8]};
    const float delta[2] = {p.statistics.delta[rows], p.statistics.delta[rows + 8]};
    float dq[kGradient];
    uint32_t ds[kScores / 2];
    clear(dq);
#pragma unroll
    for (int j = 0; j < kScores / 2; ++j) ds[j] = 0;
    barrier_wait(&barriers.q_full, q_parity);
    q_parity ^= 1;
    int before = ring.slot;  // block i - 1's; for the first block its own, with dS zero
    for (int n = keys.end - 1; n >= keys.begin; --n) {
      float s[kScores], dp[kScores];
      barrier_wait(&barriers.k_full[ring.slot], ring.parity);
      if (Tile::kTurns) named_sync(3 + warpgroup, 2 * kWarpgroupThreads);
      product_fence();
      accumulate(dq, ds, key_tile(before));
      scores(s, shared, key_tile(ring.slot));
      barrier_wait(&barriers.v_full[ring.slot], ring.parity);
      product_fence();
      scores(dp, shared + Tile::kGradientOffset, key_tile(ring.slot) + Tile::kStages * Tile::kKeyBytes);
      if (Tile::kTurns) named_arrive(3 + (warpgroup ^ 1), 2 * kWarpgroupThreads);
      product_wait<1>();
      pin(s);
      pin(dq);
      if (n != keys.end - 1) arrive(&barriers.k_empty[before]);
      if (!contains(whole, n)) hide(s, row, n * Tile::kKeys + 2 * (thread % 4));
#pragma unroll
      for (int j = 0; j < kScores; ++j) s[j] = exp2_fast(fmaf(s[j], p.scale_log2, -lse[(j / 2) % 2]));
      pin(s);
      product_wait<0>();
      pin(dp);
      arrive(&barriers.v_empty[ring.slot]);
#pragma unroll
      for (int j = 0; j < kScores / 2; ++j) {
        const float shift = delta[j % 2];
        ds[j] = pack_bf16(s[2 * j] * (dp[2 * j] - shift), s[2 * j + 1] * (dp[2 * j + 1] - shift));
      }
      pin(ds);
      before = ring.slot;
      ring.advance();
    }
    product_fence();
    accumulate(dq, ds, key_tile(before));
    product_wait<0>();
    pin(dq);
    arrive(&barriers.k_empty[before]);
    finish(flat_head, first, dq);
  }

  // Stages dQ over this warpgroup's own queries, which only it reads.
  __device__ __forceinline__ void finish(int flat_head, int first, const float (&dq)[kGradient]) {
    const int batch = flat_head / p.heads;
    const int head = flat_head - batch * p.heads;
    uint8_t* queries = shared + warpgroup * 64 * kRowBytes;
    named_sync(1 + warpgroup, kWarpgroupThreads);  // all four warps are past their last product
    stage_rows<Tile::kQueries>(queries, thread, dq, p.scale);
    shared_writes_to_async();
    named_sync(1 + warpgroup, kWarpgroupThreads);
    if (thread == 0) {
      if (first < p.visibility.sequence) {
        send_rows<Tile::kQueries, Tile::kHeadSize>(&p.dq, queries, first, head, batch);
        copy_out_wait_read();
      }
      barrier_arrive(&barriers.q_empty);
    }
  }
};

template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    flash_attention_backward_queries_kernel(const __grid_constant__ QueriesArguments p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) uint8_t shared[];
  auto& barriers = *reinterpret_cast<QueriesBarriers<Tile>*>(shared + Tile::kBarrierOffset);
  static_assert(sizeof(barriers) <= 256);
  constexpr int kWarps = 4 * Tile::kWarpgroups;
  if (threadIdx.x == 0) {
    barrier_init(&barriers.q_full, 1);
    barrier_init(&barriers.q_empty, Tile::kWarpgroups);
    for (int i = 0; i < Tile::kStages; ++i) {
      barrier_init(&barriers.k_full[i], 1);
      barrier_init(&barriers.k_empty[i], kWarps);
      barrier_init(&barriers.v_full[i], 1);
      barrier_init(&barriers.v_empty[i], kWarps);
    }
    for (int i = 0; i < 2; ++i) {
      barrier_init(&barriers.slots.full[i], 1);
      barrier_init(&barriers.slots.empty[i], kWarps);
    }
    barrier_init_fence();
  }
  __syncthreads();
  const int role = __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / kWarpgroupThreads, 0);
  if (role == 0) {
    give_registers<24>();
    if (threadIdx.x == 0) produce<Tile>(p, shared, barriers);
  } else {
    take_registers<240>();
    Consumer<Tile> consumer{p, shared, barriers, role - 1, static_cast<int>(threadIdx.x) % kWarpgroupThreads};
    if (Tile::kTurns && role == 2) named_arrive(3, 2 * kWarpgroupThreads);
    Ring<2> turn;
    while (true) {
      barrier_wait(&barriers.slots.full[turn.slot], turn.parity);
      const int index = __shfl_sync(0xffffffff, barriers.slots.tile[turn.slot], 0);
      if (consumer.thread % 32 == 0) barrier_arrive(&barriers.slots.empty[turn.slot]);
      turn.advance();
      if (index >= p.order.tiles()) break;
      int flat_head, block;
      p.order.locate(index, &flat_head, &block);
      consumer.walk(flat_head, block);
    }
  }
#else
  __trap();
#endif
}

template <class Tile>
cudaError_t launch(const HopperBackward& call, int* next_tile) {
  const AttentionExtents& extents = call.extents;
  const AttentionBackward& operands = call.operands;
  QueriesArguments p{};
  const bool mapped = encode_tokens(&p.q, operands.q, extents, extents.heads, Tile::kQueries, kAllChunks) &&
                      encode_tokens(&p.d_o, operands.d_o, extents, extents.heads, Tile::kQueries, kAllChunks) &&
                      encode_tokens(&p.k, operands.k, extents, extents.kv_heads, Tile::kKeys, kAllChunks) &&
                      encode_tokens(&p.v, operands.v, extents, extents.kv_heads, Tile::kKeys, kAllChunks) &&
                      encode_tokens(&p.dq, operands.dq, extents, extents.heads, 64, kOneChunk);
  if (!mapped) return cudaErrorInvalidValue;
  p.statistics = call.statistics;
  p.visibility = visibility_of(extents);
  p.heads = static_cast<int>(extents.heads);
  p.group = static_cast<int>(extents.heads / extents.kv_heads);
  p.scale = extents.scale;
  p.scale_log2 = extents.scale * kLog2E;
  p.order.blocks = ceil_div(p.visibility.sequence, Tile::kQueries);
  p.order.heads = static_cast<int>(extents.batch * extents.heads);
  p.order.heads_per_section = p.group * section_heads(extents, p.order.heads / p.group, 1);
  p.order.descending = extents.causal;
  int blocks = 0;
  p.next_tile = tile_counter(p.order.tiles(), next_tile, &blocks);
  return launch_kernel(flash_attention_backward_queries_kernel<Tile>, blocks, Tile::kThreads, Tile::kSharedBytes,
                       p, call.stream);
}

template <class Tile>
int64_t tile_pairs(const AttentionExtents& extents) {
  const Visibility visibility = visibility_of(extents);
  int64_t blocks = 0;
  for (int first = 0; first < visibility.sequence; first += Tile::kQueries) {
    const BlockRange keys = key_blocks(visibility, first, first + Tile::kQueries - 1, Tile::kKeys);
    blocks += keys.end - keys.begin;
  }
  return blocks * Tile::kQueries * Tile::kKeys * extents.batch * extents.heads;
}

#ifndef RIDGE_QUERIES_TURNS
#define RIDGE_QUERIES_TURNS 1
#endif
using Queries64 = QueriesTile<64, 128, 2, RIDGE_QUERIES_TURNS>;
using Queries128 = QueriesTile<128, 96, 3, RIDGE_QUERIES_TURNS>;

}  // namespace

cudaError_t launch_backward_queries_hopper(const HopperBackward& call, int* next_tile) {
  return call.extents.head_size == 64 ? launch<Queries64>(call, next_tile) : launch<Queries128>(call, next_tile);
}

int64_t backward_queries_hopper_pairs(const AttentionExtents& extents) {
  return extents.head_size == 64 ? tile_pairs<Queries64>(extents) : tile_pairs<Queries128>(extents);
}

}  // namespace ridge::backends::cuda
