// SPDX-License-Identifier: Apache-2.0
// Flash attention backward for Hopper, the query pass that recomputes the scores: dQ (bf16, head
// sizes 64, 128 and 256). It needs no memory beyond the row statistics. Query tiles that read a
// spilled dS are in backward_keys.cu.
//
// A block owns 128 queries (E 64: 192), 64 per consumer warpgroup, and iterates over the keys that
// they attend to: S = Q K^T, dP = dO V^T, and then dS, in registers, is the left operand of dQ +=
// dS K. The order of summation follows the key blocks, so the result is deterministic.
//
// Bound: 6 E FLOPs per visited pair at the bf16 rate.
#include "backends/cuda/kernels/flash_attention/hopper/backward.cuh"

namespace ridge::backends::cuda {
namespace {

using namespace hopper;

struct QueriesArguments {
  CUtensorMap q, k, v, d_o, dq;
  RowStatistics statistics;
  int* next_tile;
  TileOrder order;
  DocumentVisibility visibility;
  int heads;
  int group;
  int shift;  // tile_shift
  float scale;
  float scale_log2;
};

template <int kHeadSizeT, int kKeysT, int kWarpgroupsT, int kKeyStagesT, int kValueStagesT>
struct QueriesTile {
  static constexpr int kHeadSize = kHeadSizeT;
  static constexpr int kKeys = kKeysT;
  static constexpr int kWarpgroups = kWarpgroupsT;
  static constexpr int kKeyStages = kKeyStagesT;  // keys are used in two products and stay longer
  static constexpr int kValueStages = kValueStagesT;
  static constexpr bool kPingPong = kWarpgroups == 2;
  static constexpr int kQueries = 64 * kWarpgroups;
  static constexpr int kThreads = kWarpgroupThreads * (1 + kWarpgroups);
  static constexpr int kProducerRegisters = kWarpgroups == 2 ? 24 : 32;
  static constexpr int kConsumerRegisters = kWarpgroups == 2 ? 240 : 160;
  static constexpr int kQueryBytes = kQueries * kHeadSize * 2;
  static constexpr int kKeyBytes = kKeys * kHeadSize * 2;
  static constexpr int kGradientOffset = kQueryBytes;
  static constexpr int kKeyOffset = 2 * kQueryBytes;
  static constexpr int kValueOffset = kKeyOffset + kKeyStages * kKeyBytes;
  static constexpr int kBarrierOffset = kValueOffset + kValueStages * kKeyBytes;
  static constexpr int kBarrierBytes = 256;
  static constexpr int kSharedBytes = kBarrierOffset + kBarrierBytes;
  static_assert(kSharedBytes <= 232448);
};

template <class Tile>
struct QueriesBarriers {
  uint32_t base;
  __device__ __forceinline__ uint32_t at(int index) const {
    return base + Tile::kBarrierOffset + 8 * index;
  }
  __device__ __forceinline__ uint32_t q_full() const { return at(0); }
  __device__ __forceinline__ uint32_t q_empty() const { return at(1); }
  __device__ __forceinline__ uint32_t tile_full(int slot) const { return at(2 + slot); }
  __device__ __forceinline__ uint32_t tile_empty(int slot) const { return at(4 + slot); }
  __device__ __forceinline__ uint32_t tile(int slot) const { return at(6 + slot); }
  __device__ __forceinline__ uint32_t k_full(int slot) const { return at(8 + slot); }
  __device__ __forceinline__ uint32_t k_empty(int slot) const {
    return at(8 + Tile::kKeyStages + slot);
  }
  __device__ __forceinline__ uint32_t v_full(int slot) const {
    return at(8 + 2 * Tile::kKeyStages + slot);
  }
  __device__ __forceinline__ uint32_t v_empty(int slot) const {
    return at(8 + 2 * Tile::kKeyStages + Tile::kValueStages + slot);
  }
  static_assert(8 * (8 + 2 * Tile::kKeyStages + 2 * Tile::kValueStages) <= Tile::kBarrierBytes);

  __device__ __forceinline__ uint32_t key_tile(int slot) const {
    return base + Tile::kKeyOffset + slot * Tile::kKeyBytes;
  }
  __device__ __forceinline__ uint32_t value_tile(int slot) const {
    return base + Tile::kValueOffset + slot * Tile::kKeyBytes;
  }

  __device__ __forceinline__ void init() const {
    constexpr int kWarps = 4 * Tile::kWarpgroups;
    barrier_init(q_full(), 1);
    barrier_init(q_empty(), Tile::kWarpgroups);
    for (int i = 0; i < 2; ++i) {
      barrier_init(tile_full(i), 1);
      barrier_init(tile_empty(i), 32 * kWarps);
    }
    for (int i = 0; i < Tile::kKeyStages; ++i) {
      barrier_init(k_full(i), 1);
      barrier_init(k_empty(i), 32 * kWarps);
    }
    for (int i = 0; i < Tile::kValueStages; ++i) {
      barrier_init(v_full(i), 1);
      barrier_init(v_empty(i), 32 * kWarps);
    }
    barrier_init_fence();
  }
};

template <class Tile>
__device__ __forceinline__ BlockRange tile_keys(const QueriesArguments& p, int batch, int block) {
  const int first = block * Tile::kQueries - p.shift;
  return key_blocks(p.visibility.in_row(batch), first < 0 ? 0 : first, first + Tile::kQueries - 1,
                    Tile::kKeys);
}

template <class Tile>
__device__ __forceinline__ void produce(const QueriesArguments& p,
                                        const QueriesBarriers<Tile>& barriers) {
  const uint32_t shared = barriers.base;
  Ring<2> tile_ring;
  Ring<Tile::kKeyStages> key_ring;
  Ring<Tile::kValueStages> value_ring;
  uint32_t q_parity = 0;
  int index = blockIdx.x;
  while (true) {
    barrier_wait(barriers.tile_empty(tile_ring.slot), tile_ring.parity ^ 1);
    store_shared_int(barriers.tile(tile_ring.slot), index);
    barrier_arrive(barriers.tile_full(tile_ring.slot));
    tile_ring.advance();
    if (index >= p.order.tiles()) break;
    int flat_head, block;
    p.order.locate(index, &flat_head, &block);
    const int batch = flat_head / p.heads;
    const int head = flat_head - batch * p.heads;
    const int kv_head = head / p.group;
    const BlockRange keys = tile_keys<Tile>(p, batch, block);
    const int first = block * Tile::kQueries - p.shift;  // tokens before the sequence read as zero
    barrier_wait(barriers.q_empty(), q_parity ^ 1);
    q_parity ^= 1;
    barrier_expect(barriers.q_full(), 2 * Tile::kQueryBytes);
    copy_in(shared, &p.q, barriers.q_full(), first, head, batch);
    copy_in(shared + Tile::kGradientOffset, &p.d_o, barriers.q_full(), first, head, batch);
#pragma unroll 1
    for (int n = keys.end - 1; n >= keys.begin; --n) {
      const uint32_t k_full = barriers.k_full(key_ring.slot);
      barrier_wait(barriers.k_empty(key_ring.slot), key_ring.parity ^ 1);
      barrier_expect(k_full, Tile::kKeyBytes);
      copy_in(barriers.key_tile(key_ring.slot), &p.k, k_full, n * Tile::kKeys, kv_head, batch);
      key_ring.advance();
      const uint32_t v_full = barriers.v_full(value_ring.slot);
      barrier_wait(barriers.v_empty(value_ring.slot), value_ring.parity ^ 1);
      barrier_expect(v_full, Tile::kKeyBytes);
      copy_in(barriers.value_tile(value_ring.slot), &p.v, v_full, n * Tile::kKeys, kv_head, batch);
      value_ring.advance();
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
  QueriesBarriers<Tile> barriers;
  int warpgroup;
  int thread;
  Ring<Tile::kKeyStages> key_ring{};
  Ring<Tile::kValueStages> value_ring{};
  uint32_t q_parity = 0;

  // d[64 queries, kKeys] = rows(64 of `queries`) times rows(keys)^T
  __device__ __forceinline__ void scores(float (&d)[kScores], uint32_t queries, uint32_t keys) {
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
                                             uint32_t keys) {
    const uint64_t b = by_rows(keys, Tile::kKeys);
#pragma unroll
    for (int i = 0; i < Tile::kKeys / 16; ++i) {
      Product<Tile::kHeadSize>::template registers<1>(dq, ds + 4 * i, b + row_step(i), 1);
    }
    product_commit();
  }

  // Skips a key block to which none of this warpgroup's queries attend, only other queries of the
  // tile.
  __device__ __forceinline__ void skip_block() {
    barrier_wait(barriers.k_full(key_ring.slot), key_ring.parity);
    barrier_arrive(barriers.k_empty(key_ring.slot));
    key_ring.advance();
    if (Tile::kPingPong) {
      named_sync(1 + warpgroup, 2 * kWarpgroupThreads);
      named_arrive(1 + (warpgroup ^ 1), 2 * kWarpgroupThreads);
    }
    barrier_wait(barriers.v_full(value_ring.slot), value_ring.parity);
    barrier_arrive(barriers.v_empty(value_ring.slot));
    value_ring.advance();
  }

  // Processes the key blocks from the last. For block i the tensor cores compute dQ of block i - 1,
  // S_i and dP_i. P_i and dP_i are computed concurrently, and nothing is in flight across
  // iterations of the loop.
  __device__ __forceinline__ void iterate(int flat_head, int block) {
    const int first = block * Tile::kQueries + warpgroup * 64 - p.shift;
    const int row = first + (thread / 32) * 16 + (thread % 32) / 4;
    const int batch = flat_head / p.heads;
    const DocumentVisibility visibility = p.visibility.in_row(batch);
    const BlockRange keys = tile_keys<Tile>(p, batch, block);
    BlockRange own = key_blocks(visibility, first, first + 63, Tile::kKeys);
    if (first < 0) own = BlockRange{};
    const BlockRange whole = whole_key_blocks(visibility, first, first + 63, Tile::kKeys);
    const int64_t rows = static_cast<int64_t>(flat_head) * p.statistics.padded;
    const float* deltas = p.statistics.minus_delta + RowStatistics::kDeltaCopies * rows;
    float minus_lse[2], minus_delta[2];  // statistics of this thread's two rows
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int padded_row = max(row + 8 * r, 0);
      minus_lse[r] = p.statistics.minus_lse[rows + padded_row];
      minus_delta[r] = deltas[RowStatistics::delta_place(padded_row)];
    }
    float dq[kGradient];
    uint32_t ds[kScores / 2];
    clear(dq);
    clear(ds);
    barrier_wait(barriers.q_full(), q_parity);
    q_parity ^= 1;
    // The vote and the barrier show the compiler that the warp does not diverge.
    if (__any_sync(0xffffffff, own.end < keys.end)) {
#pragma unroll 1
      for (int n = keys.end; n > own.end && n > keys.begin; --n) skip_block();
    }
    __syncwarp();
    int before = key_ring.slot;  // stage of block i - 1; for the first block its own, with dS zero
    for (int n = own.end - 1; n >= own.begin; --n) {
      float s[kScores], dp[kScores];
      barrier_wait(barriers.k_full(key_ring.slot), key_ring.parity);
      if (Tile::kPingPong) named_sync(1 + warpgroup, 2 * kWarpgroupThreads);
      product_fence();
      accumulate(dq, ds, barriers.key_tile(before));
      scores(s, barriers.base, barriers.key_tile(key_ring.slot));
      barrier_wait(barriers.v_full(value_ring.slot), value_ring.parity);
      product_fence();
      scores(dp, barriers.base + Tile::kGradientOffset, barriers.value_tile(value_ring.slot));
      if (Tile::kPingPong) named_arrive(1 + (warpgroup ^ 1), 2 * kWarpgroupThreads);
      product_wait<1>();
      pin(s);
      pin(dq);
      if (n != own.end - 1) barrier_arrive(barriers.k_empty(before));
      if (!contains(whole, n))
        hide_keys(s, p.visibility.in_row(flat_head / p.heads), row,
                  n * Tile::kKeys + 2 * (thread % 4));
#pragma unroll
      for (int j = 0; j < kScores; ++j)
        s[j] = exp2_fast(fmaf(s[j], p.scale_log2, minus_lse[(j / 2) % 2]));
      pin(s);
      product_wait<0>();
      pin(dp);
      barrier_arrive(barriers.v_empty(value_ring.slot));
      value_ring.advance();
#pragma unroll
      for (int j = 0; j < kScores / 2; ++j) {
        const float shift = minus_delta[j % 2];
        ds[j] = pack_bf16(s[2 * j] * (dp[2 * j] + shift), s[2 * j + 1] * (dp[2 * j + 1] + shift));
      }
      pin(ds);
      before = key_ring.slot;
      key_ring.advance();
    }
    if (own.end > own.begin) {
      product_fence();
      accumulate(dq, ds, barriers.key_tile(before));
      product_wait<0>();
      pin(dq);
      barrier_arrive(barriers.k_empty(before));
      if (__any_sync(0xffffffff, own.begin > keys.begin)) {
#pragma unroll 1
        for (int n = own.begin; n > keys.begin; --n) skip_block();
      }
      __syncwarp();
    }
    finish(flat_head, first, dq);
  }

  // Stages dQ in the place of this warpgroup's queries, which no other warpgroup reads.
  __device__ __forceinline__ void finish(int flat_head, int first, const float (&dq)[kGradient]) {
    const int batch = flat_head / p.heads;
    const int head = flat_head - batch * p.heads;
    const uint32_t queries = barriers.base + warpgroup * 64 * kRowBytes;
    named_sync(4 + warpgroup, kWarpgroupThreads);  // all four warps are past their last products
    stage_rows<Tile::kQueries>(queries, thread, dq, p.scale);
    shared_writes_to_async();
    named_sync(4 + warpgroup, kWarpgroupThreads);
    if (thread == 0) {
      if (first >= 0) {
        send_rows<Tile::kQueries, Tile::kHeadSize>(&p.dq, queries, first, head, batch);
        copy_out_wait_read();
      }
      barrier_arrive(barriers.q_empty());
    }
  }
};

template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    flash_attention_backward_queries_kernel(const __grid_constant__ QueriesArguments p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) uint8_t shared[];
  const QueriesBarriers<Tile> barriers{shared_address(shared)};
  if (threadIdx.x == 0) barriers.init();
  __syncthreads();
  const int role = __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / kWarpgroupThreads, 0);
  if (role == 0) {
    give_registers<Tile::kProducerRegisters>();
    if (threadIdx.x == 0) produce<Tile>(p, barriers);
  } else {
    take_registers<Tile::kConsumerRegisters>();
    Consumer<Tile> consumer{p, barriers, role - 1,
                            static_cast<int>(threadIdx.x) % kWarpgroupThreads};
    if (Tile::kPingPong && role == 2) named_arrive(1, 2 * kWarpgroupThreads);
    Ring<2> tile_ring;
    while (true) {
      barrier_wait(barriers.tile_full(tile_ring.slot), tile_ring.parity);
      const int index = __shfl_sync(0xffffffff, load_shared_int(barriers.tile(tile_ring.slot)), 0);
      barrier_arrive(barriers.tile_empty(tile_ring.slot));
      tile_ring.advance();
      if (index >= p.order.tiles()) break;
      int flat_head, block;
      p.order.locate(index, &flat_head, &block);
      consumer.iterate(flat_head, block);
    }
  }
  // This grid's inputs were written before the key pass let it start, but it must not end before
  // the key pass does.
  grid_wait();
#else
  __trap();
#endif
}

template <class Tile>
cudaError_t launch(const HopperBackward& call, int* next_tile) {
  const AttentionExtents& extents = call.extents;
  const AttentionBackward& operands = call.operands;
  QueriesArguments p{};
  const bool mapped =
      encode_tokens(&p.q, operands.q, extents, extents.heads, Tile::kQueries, kAllChunks) &&
      encode_tokens(&p.d_o, operands.d_o, extents, extents.heads, Tile::kQueries, kAllChunks) &&
      encode_tokens(&p.k, operands.k, extents, extents.kv_heads, Tile::kKeys, kAllChunks) &&
      encode_tokens(&p.v, operands.v, extents, extents.kv_heads, Tile::kKeys, kAllChunks) &&
      encode_tokens(&p.dq, operands.dq, extents, extents.heads, 64, kOneChunk);
  if (!mapped) return cudaErrorInvalidValue;
  p.statistics = call.statistics;
  p.visibility = visibility_with_documents(extents);
  p.heads = static_cast<int>(extents.heads);
  p.group = static_cast<int>(extents.heads / extents.kv_heads);
  p.shift = tile_shift(p.visibility.sequence, Tile::kWarpgroups);
  p.scale = extents.scale;
  p.scale_log2 = extents.scale * kLog2E;
  p.order.blocks = ceil_div(p.visibility.sequence, Tile::kQueries);
  p.order.heads = static_cast<int>(extents.batch * extents.heads);
  p.order.heads_per_section = p.group * section_heads(extents, p.order.heads / p.group, 1);
  p.order.descending = extents.causal;
  const int places = multiprocessors();
  const int blocks = p.order.tiles() < places ? p.order.tiles() : places;
  p.next_tile = p.order.tiles() > blocks ? next_tile : nullptr;
  return launch_kernel(flash_attention_backward_queries_kernel<Tile>, blocks, Tile::kThreads,
                       Tile::kSharedBytes, p, call.stream, kAfterTrigger);
}

// A warpgroup visits the blocks that its own 64 queries attend to.
template <class Tile>
int64_t tile_pairs(const AttentionExtents& extents) {
  const Visibility visibility = visibility_of(extents);
  int64_t blocks = 0;
  for (int first = 0; first < visibility.sequence; first += 64) {
    const BlockRange keys = key_blocks(visibility, first, first + 63, Tile::kKeys);
    blocks += keys.end - keys.begin;
  }
  return blocks * 64 * Tile::kKeys * extents.batch * extents.heads;
}

using Queries64 = QueriesTile<64, 64, 3, 4, 4>;
using Queries128 = QueriesTile<128, 96, 2, 3, 3>;
using Queries256 = QueriesTile<256, 64, 2, 2, 1>;

}  // namespace

cudaError_t launch_backward_queries_hopper(const HopperBackward& call, int* next_tile) {
  switch (call.extents.head_size) {
    case 64:
      return launch<Queries64>(call, next_tile);
    case 128:
      return launch<Queries128>(call, next_tile);
    default:
      return launch<Queries256>(call, next_tile);
  }
}

int64_t backward_queries_hopper_pairs(const AttentionExtents& extents) {
  switch (extents.head_size) {
    case 64:
      return tile_pairs<Queries64>(extents);
    case 128:
      return tile_pairs<Queries128>(extents);
    default:
      return tile_pairs<Queries256>(extents);
  }
}

}  // namespace ridge::backends::cuda
