// SPDX-License-Identifier: Apache-2.0
// Flash attention backward for Hopper, head size 256: dK and dV (bf16). Smaller head sizes are in
// backward_keys.cu; dQ is in backward_queries.cu.
//
// A tile is 64 keys of one key head. One of its gradients fills a warpgroup's registers, so the two
// consumer warpgroups split the work by gradient, not by keys: the first computes S^T, P^T and dV
// += P^T dO, the second dP^T, dS^T and dK += dS^T Q. The first passes P^T to the second through
// shared memory as bf16, register by register.
//
// Bound: 8 E FLOPs per visited pair at the bf16 rate; the queries' tiles are read from L2 once per
// 64 keys, at 32 bytes per clock and multiprocessor at that rate.
#include "backends/cuda/kernels/flash_attention/hopper/backward.cuh"

namespace ridge::backends::cuda {
namespace {

using namespace hopper;

struct WideArguments {
  CUtensorMap q, k, v, d_o, dk, dv;
  RowStatistics statistics;
  int* next_tile;
  TileOrder order;
  DocumentVisibility visibility;
  int kv_heads;
  int group;
  float scale;
  float scale_log2;
};

constexpr int kHeadSize = 256;
constexpr int kKeys = 64;
constexpr int kQueries = 64;
constexpr int kStages = 2;
constexpr int kThreads = 384;
constexpr int kScores = kQueries / 2;     // accumulator registers of 64 keys x 64 queries
constexpr int kGradient = kHeadSize / 2;  // so many hold 64 keys x E
constexpr int kTileBytes = 64 * kHeadSize * 2;
constexpr int kStageOffset = 2 * kTileBytes;
constexpr int kStageBytes = 2 * kTileBytes;  // Q and dO
constexpr int kExchangeOffset = kStageOffset + kStages * kStageBytes;
constexpr int kExchangeBytes = kScores / 2 * 4 * kWarpgroupThreads;
constexpr int kStatisticsOffset = kExchangeOffset + 2 * kExchangeBytes;
constexpr int kStatisticBytes = RowStatistics::kLseBytes + RowStatistics::kDeltaBytes;
constexpr int kBarrierOffset = kStatisticsOffset + kStages * kStatisticBytes;
constexpr int kSharedBytes = kBarrierOffset + 256;
static_assert(kSharedBytes <= 232448);

struct Barriers {
  uint32_t base;
  __device__ __forceinline__ uint32_t at(int index) const {
    return base + kBarrierOffset + 8 * index;
  }
  __device__ __forceinline__ uint32_t tile_full(int slot) const { return at(slot); }
  __device__ __forceinline__ uint32_t tile_empty(int slot) const { return at(2 + slot); }
  __device__ __forceinline__ uint32_t tile(int slot) const { return at(4 + slot); }
  // Role 0: keys, 1: values.
  __device__ __forceinline__ uint32_t operand_full(int role) const { return at(6 + role); }
  __device__ __forceinline__ uint32_t operand_empty(int role) const { return at(8 + role); }
  __device__ __forceinline__ uint32_t exchange_full(int slot) const { return at(10 + slot); }
  __device__ __forceinline__ uint32_t exchange_empty(int slot) const { return at(12 + slot); }
  __device__ __forceinline__ uint32_t q_full(int slot) const { return at(14 + slot); }
  __device__ __forceinline__ uint32_t q_empty(int slot) const { return at(14 + kStages + slot); }
  __device__ __forceinline__ uint32_t do_full(int slot) const {
    return at(14 + 2 * kStages + slot);
  }
  __device__ __forceinline__ uint32_t do_empty(int slot) const {
    return at(14 + 3 * kStages + slot);
  }

  __device__ __forceinline__ uint32_t operand(int role) const { return base + role * kTileBytes; }
  __device__ __forceinline__ uint32_t queries(int slot) const {
    return base + kStageOffset + slot * kStageBytes;
  }
  __device__ __forceinline__ uint32_t gradients(int slot) const {
    return queries(slot) + kTileBytes;
  }
  __device__ __forceinline__ uint32_t lse(int slot) const {
    return base + kStatisticsOffset + slot * kStatisticBytes;
  }
  __device__ __forceinline__ uint32_t delta(int slot) const {
    return lse(slot) + RowStatistics::kLseBytes;
  }
  __device__ __forceinline__ uint32_t exchange(int slot) const {
    return base + kExchangeOffset + slot * kExchangeBytes;
  }

  __device__ __forceinline__ void init() const {
    for (int i = 0; i < 2; ++i) {
      barrier_init(tile_full(i), 1);
      barrier_init(tile_empty(i), 2 * kWarpgroupThreads);
      barrier_init(operand_full(i), 1);
      barrier_init(operand_empty(i), 1);
      barrier_init(exchange_full(i), kWarpgroupThreads);
      barrier_init(exchange_empty(i), kWarpgroupThreads);
    }
    for (int i = 0; i < kStages; ++i) {
      barrier_init(q_full(i), 1);
      barrier_init(q_empty(i), 2 * kWarpgroupThreads);
      barrier_init(do_full(i), 1);
      barrier_init(do_empty(i), 2 * kWarpgroupThreads);
    }
    barrier_init_fence();
  }
};

__device__ __forceinline__ BlockRange tile_queries(const WideArguments& p, int batch, int block) {
  return query_blocks(p.visibility.in_row(batch), block * kKeys, block * kKeys + kKeys - 1,
                      kQueries);
}

__device__ __forceinline__ void produce(const WideArguments& p, const Barriers& barriers) {
  Ring<2> tile_ring;
  Ring<kStages> ring;
  uint32_t operand_parity = 0;
  int index = blockIdx.x;
  while (true) {
    barrier_wait(barriers.tile_empty(tile_ring.slot), tile_ring.parity ^ 1);
    store_shared_int(barriers.tile(tile_ring.slot), index);
    barrier_arrive(barriers.tile_full(tile_ring.slot));
    tile_ring.advance();
    if (index >= p.order.tiles()) break;
    int flat_head, block;
    p.order.locate(index, &flat_head, &block);
    const int batch = flat_head / p.kv_heads;
    const int kv_head = flat_head - batch * p.kv_heads;
    const BlockRange queries = tile_queries(p, batch, block);
#pragma unroll 1
    for (int role = 0; role < 2; ++role) {
      barrier_wait(barriers.operand_empty(role), operand_parity ^ 1);
      barrier_expect(barriers.operand_full(role), kTileBytes);
      copy_in(barriers.operand(role), role == 0 ? &p.k : &p.v, barriers.operand_full(role),
              block * kKeys, kv_head, batch);
    }
    operand_parity ^= 1;
#pragma unroll 1
    for (int g = 0; g < p.group; ++g) {
      const int head = kv_head * p.group + g;
      const int64_t rows = static_cast<int64_t>(flat_head * p.group + g) * p.statistics.padded;
#pragma unroll 1
      for (int m = queries.begin; m < queries.end; ++m) {
        const int64_t row = rows + m * kQueries;
        const uint32_t q_full = barriers.q_full(ring.slot);
        barrier_wait(barriers.q_empty(ring.slot), ring.parity ^ 1);
        barrier_expect(q_full, kTileBytes + RowStatistics::kLseBytes);
        copy_in(barriers.queries(ring.slot), &p.q, q_full, m * kQueries, head, batch);
        copy_in_flat(barriers.lse(ring.slot), p.statistics.minus_lse + row,
                     RowStatistics::kLseBytes, q_full);
        const uint32_t do_full = barriers.do_full(ring.slot);
        barrier_wait(barriers.do_empty(ring.slot), ring.parity ^ 1);
        barrier_expect(do_full, kTileBytes + RowStatistics::kDeltaBytes);
        copy_in(barriers.gradients(ring.slot), &p.d_o, do_full, m * kQueries, head, batch);
        copy_in_flat(barriers.delta(ring.slot),
                     p.statistics.minus_delta + RowStatistics::kDeltaCopies * row,
                     RowStatistics::kDeltaBytes, do_full);
        ring.advance();
      }
    }
    index = p.next_tile != nullptr ? static_cast<int>(gridDim.x) + atomicAdd(p.next_tile, 1)
                                   : index + static_cast<int>(gridDim.x);
  }
}

// One warpgroup's share of a tile, with the operations that both consumers use.
struct Consumer {
  const WideArguments& p;
  Barriers barriers;
  int thread;
  Ring<kStages> ring{};
  Ring<2> exchange{};
  uint32_t operand_parity = 0;

  // d[64 keys, 64 queries] = keys times rows(queries)^T
  __device__ __forceinline__ static void scores(float (&d)[kScores],
                                                uint32_t keys,
                                                uint32_t queries) {
    const uint64_t a = by_columns(keys);
    const uint64_t b = by_columns(queries);
#pragma unroll
    for (int i = 0; i < kHeadSize / 16; ++i) {
      Product<kQueries>::shared<0, 0>(d, a + column_step<kKeys>(i), b + column_step<kQueries>(i),
                                      i != 0);
    }
    product_commit();
  }

  // d[64 keys, E] += weights[64 keys, 64 queries] times queries[64, E]
  __device__ __forceinline__ static void accumulate(float (&d)[kGradient],
                                                    const uint32_t (&weights)[kScores / 2],
                                                    uint32_t queries) {
    const uint64_t b = by_rows(queries, kQueries);
#pragma unroll
    for (int i = 0; i < kQueries / 16; ++i) {
      Product<kHeadSize>::registers<1>(d, weights + 4 * i, b + row_step(i), 1);
    }
    product_commit();
  }

  __device__ __forceinline__ void load_pairs(float2 (&values)[kScores / 4],
                                             uint32_t address,
                                             int stride) const {
#pragma unroll
    for (int j = 0; j < kScores / 4; ++j) values[j] = load_shared_float2(address + j * stride);
  }
  __device__ __forceinline__ void load_lse(float2 (&values)[kScores / 4]) const {
    load_pairs(values, barriers.lse(ring.slot) + (thread % 4) * 8, 32);
  }
  __device__ __forceinline__ void load_deltas(float2 (&values)[kScores / 4]) const {
    load_pairs(values, barriers.delta(ring.slot) + (thread % 4) * 16, 64);
  }

  // Stages a gradient in the place of this warpgroup's operand, which no other warpgroup reads.
  __device__ __forceinline__ void send(const CUtensorMap* map,
                                       int role,
                                       int first,
                                       int kv_head,
                                       int batch,
                                       const float (&d)[kGradient],
                                       float factor) {
    named_sync(1 + role, kWarpgroupThreads);  // all four warps are past their last products
    stage_rows<kKeys>(barriers.operand(role), thread, d, factor);
    shared_writes_to_async();
    named_sync(1 + role, kWarpgroupThreads);
    if (thread == 0) {
      send_rows<kKeys, kHeadSize>(map, barriers.operand(role), first, kv_head, batch);
      copy_out_wait_read();
      barrier_arrive(barriers.operand_empty(role));
    }
  }

  // Computes S^T, P^T and dV. The tensor cores compute dV of block i - 1, then S of block i.
  __device__ __forceinline__ void iterate_values(int block, int kv_head, int batch) {
    const int first = block * kKeys;
    const int key = first + (thread / 32) * 16 + (thread % 32) / 4;
    const BlockRange queries = tile_queries(p, batch, block);
    const BlockRange whole =
        whole_query_blocks(p.visibility.in_row(batch), first, first + kKeys - 1, kQueries);
    const int steps = p.group * (queries.end - queries.begin);
    float dv[kGradient];
    uint32_t probability[kScores / 2];
    float2 minus_lse[kScores / 4];
    clear(dv);
    clear(probability);
    barrier_wait(barriers.operand_full(0), operand_parity);
    operand_parity ^= 1;
    barrier_wait(barriers.q_full(ring.slot), ring.parity);
    load_lse(minus_lse);
    barrier_wait(barriers.do_full(ring.slot), ring.parity);
    int before = ring.slot;  // stage of block i - 1; for the first block its own, with P zero
    int m = queries.begin;
    for (int i = 0; i < steps; ++i) {
      float s[kScores];
      product_fence();
      accumulate(dv, probability, barriers.gradients(before));
      scores(s, barriers.operand(0), barriers.queries(ring.slot));
      product_wait<1>();
      pin(dv);
      if (i > 0) barrier_arrive(barriers.do_empty(before));
      product_wait<0>();
      pin(s);
      barrier_arrive(barriers.q_empty(ring.slot));
      if (!contains(whole, m))
        hide_queries(s, p.visibility.in_row(batch), key, m * kQueries + 2 * (thread % 4));
#pragma unroll
      for (int j = 0; j < kScores; ++j) {
        const float2 v = minus_lse[j / 4];
        s[j] = exp2_fast(fmaf(s[j], p.scale_log2, j % 2 == 0 ? v.x : v.y));
      }
#pragma unroll
      for (int j = 0; j < kScores; j += 2) probability[j / 2] = pack_bf16(s[j], s[j + 1]);
      pin(probability);
      barrier_wait(barriers.exchange_empty(exchange.slot), exchange.parity ^ 1);
#pragma unroll
      for (int j = 0; j < kScores / 8; ++j) {
        store_shared_words(barriers.exchange(exchange.slot) + (j * kWarpgroupThreads + thread) * 16,
                           probability + 4 * j);
      }
      __syncwarp();
      barrier_arrive(barriers.exchange_full(exchange.slot));
      exchange.advance();
      barrier_wait(barriers.do_full(ring.slot), ring.parity);
      before = ring.slot;
      ring.advance();
      if (i + 1 < steps) {
        barrier_wait(barriers.q_full(ring.slot), ring.parity);
        load_lse(minus_lse);
      }
      if (++m == queries.end) m = queries.begin;
    }
    product_fence();
    accumulate(dv, probability, barriers.gradients(before));
    product_wait<0>();
    pin(dv);
    barrier_arrive(barriers.do_empty(before));
    send(&p.dv, 0, first, kv_head, batch, dv, 1.0f);
  }

  // Computes dP^T, dS^T and dK. The tensor cores compute dK of block i - 1, then dP of block i.
  __device__ __forceinline__ void iterate_keys(int block, int kv_head, int batch) {
    const BlockRange queries = tile_queries(p, batch, block);
    const int steps = p.group * (queries.end - queries.begin);
    float dk[kGradient];
    uint32_t ds[kScores / 2];
    float2 minus_delta[kScores / 4];
    clear(dk);
    clear(ds);
    barrier_wait(barriers.operand_full(1), operand_parity);
    operand_parity ^= 1;
    barrier_wait(barriers.do_full(ring.slot), ring.parity);
    load_deltas(minus_delta);
    barrier_wait(barriers.q_full(ring.slot), ring.parity);
    int before = ring.slot;  // stage of block i - 1; for the first block its own, with dS zero
    for (int i = 0; i < steps; ++i) {
      float dp[kScores];
      product_fence();
      accumulate(dk, ds, barriers.queries(before));
      scores(dp, barriers.operand(1), barriers.gradients(ring.slot));
      product_wait<1>();
      pin(dk);
      if (i > 0) barrier_arrive(barriers.q_empty(before));
      barrier_wait(barriers.exchange_full(exchange.slot), exchange.parity);
      uint32_t probability[kScores / 2];
#pragma unroll
      for (int j = 0; j < kScores / 8; ++j) {
        load_shared_words(barriers.exchange(exchange.slot) + (j * kWarpgroupThreads + thread) * 16,
                          probability + 4 * j);
      }
      product_wait<0>();
      pin(dp);
      barrier_arrive(barriers.do_empty(ring.slot));
#pragma unroll
      for (int j = 0; j < kScores; j += 2) {
        const float2 v = minus_delta[j / 4];
        const float low = __uint_as_float(probability[j / 2] << 16);
        const float high = __uint_as_float(probability[j / 2] & 0xffff0000u);
        ds[j / 2] = pack_bf16(low * (dp[j] + v.x), high * (dp[j + 1] + v.y));
      }
      pin(ds);
      __syncwarp();
      barrier_arrive(barriers.exchange_empty(exchange.slot));
      exchange.advance();
      barrier_wait(barriers.q_full(ring.slot), ring.parity);
      before = ring.slot;
      ring.advance();
      if (i + 1 < steps) {
        barrier_wait(barriers.do_full(ring.slot), ring.parity);
        load_deltas(minus_delta);
      }
    }
    product_fence();
    accumulate(dk, ds, barriers.queries(before));
    product_wait<0>();
    pin(dk);
    barrier_arrive(barriers.q_empty(before));
    send(&p.dk, 1, block * kKeys, kv_head, batch, dk, p.scale);
  }
};

__global__ void __launch_bounds__(kThreads, 1)
    flash_attention_backward_wide_kernel(const __grid_constant__ WideArguments p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) uint8_t shared[];
  const Barriers barriers{shared_address(shared)};
  if (threadIdx.x == 0) barriers.init();
  __syncthreads();
  grid_wait();
  // The query pass depends on the grids before this one, not on this one.
  if (threadIdx.x == 0) grid_launch_dependents();
  const int role = __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / kWarpgroupThreads, 0);
  if (role == 0) {
    give_registers<24>();
    if (threadIdx.x == 0) produce(p, barriers);
  } else {
    take_registers<240>();
    Consumer consumer{p, barriers, static_cast<int>(threadIdx.x) % kWarpgroupThreads};
    Ring<2> tile_ring;
    while (true) {
      barrier_wait(barriers.tile_full(tile_ring.slot), tile_ring.parity);
      const int index = __shfl_sync(0xffffffff, load_shared_int(barriers.tile(tile_ring.slot)), 0);
      barrier_arrive(barriers.tile_empty(tile_ring.slot));
      tile_ring.advance();
      if (index >= p.order.tiles()) break;
      int flat_head, block;
      p.order.locate(index, &flat_head, &block);
      const int batch = flat_head / p.kv_heads;
      const int kv_head = flat_head - batch * p.kv_heads;
      if (role == 1) {
        consumer.iterate_values(block, kv_head, batch);
      } else {
        consumer.iterate_keys(block, kv_head, batch);
      }
    }
  }
#else
  __trap();
#endif
}

}  // namespace

cudaError_t launch_backward_wide_hopper(const HopperBackward& call, int* next_tile) {
  const AttentionExtents& extents = call.extents;
  const AttentionBackward& operands = call.operands;
  WideArguments p{};
  const bool mapped =
      encode_tokens(&p.q, operands.q, extents, extents.heads, kQueries, kAllChunks) &&
      encode_tokens(&p.d_o, operands.d_o, extents, extents.heads, kQueries, kAllChunks) &&
      encode_tokens(&p.k, operands.k, extents, extents.kv_heads, kKeys, kAllChunks) &&
      encode_tokens(&p.v, operands.v, extents, extents.kv_heads, kKeys, kAllChunks) &&
      encode_tokens(&p.dk, operands.dk, extents, extents.kv_heads, kKeys, kOneChunk) &&
      encode_tokens(&p.dv, operands.dv, extents, extents.kv_heads, kKeys, kOneChunk);
  if (!mapped) return cudaErrorInvalidValue;
  p.statistics = call.statistics;
  p.visibility = visibility_with_documents(extents);
  p.kv_heads = static_cast<int>(extents.kv_heads);
  p.group = static_cast<int>(extents.heads / extents.kv_heads);
  p.scale = extents.scale;
  p.scale_log2 = extents.scale * kLog2E;
  p.order.blocks = ceil_div(p.visibility.sequence, kKeys);
  p.order.heads = static_cast<int>(extents.batch * extents.kv_heads);
  p.order.heads_per_section = section_heads(extents, p.order.heads, p.group);
  const int places = multiprocessors();
  const int blocks = p.order.tiles() < places ? p.order.tiles() : places;
  p.next_tile = p.order.tiles() > blocks ? next_tile : nullptr;
  return launch_kernel(flash_attention_backward_wide_kernel, blocks, kThreads, kSharedBytes, p,
                       call.stream, kAfterTrigger);
}

}  // namespace ridge::backends::cuda
