// SPDX-License-Identifier: Apache-2.0
// Flash attention backward for Hopper, the key pass: dK and dV (bf16, head sizes 64 and 128), and on request dS for
// the query pass to multiply with K. dQ is not formed here.
//
// A block owns 128 keys of one key head, 64 a consumer warpgroup, and walks the queries that see them over all query
// heads of the group, so dK and dV sum in registers in a fixed order, GQA included. Scores are formed transposed
// (keys x queries): P^T and dS^T are then register operands of dV += P^T dO and dK += dS^T Q and never touch shared
// memory.
//
// Bound: 8 E FLOPs a visited pair at the bf16 rate; shared-memory reads of the four products are 75% (E 64: 62%) of
// what the banks deliver in that time.
#include "backends/cuda/kernels/flash_attention_backward_hopper.cuh"

namespace ridge::backends::cuda {
namespace {

using namespace hopper;

#ifndef RIDGE_KEYS_TURNS
#define RIDGE_KEYS_TURNS 1
#endif
constexpr bool kTurns = RIDGE_KEYS_TURNS;

struct KeysArguments {
  CUtensorMap q, k, v, d_o, dk, dv;
  RowStatistics statistics;
  uint8_t* spill;  // images of dS, or null
  SpillLayout layout;
  int* next_tile;
  TileOrder order;   // over key heads [first_head, first_head + order.heads)
  int first_head;    // b K + key head
  Visibility visibility;
  int kv_heads;
  int group;
  float scale;
  float scale_log2;
};

template <int kHeadSizeT, int kQueriesT, int kStagesT, int kKeyBuffersT, bool kSpillT>
struct KeysTile {
  static constexpr int kHeadSize = kHeadSizeT;
  static constexpr int kQueries = kQueriesT;
  static constexpr int kStages = kStagesT;
  // Two buffers let the next tile's keys and values land while this one's gradients leave.
  static constexpr int kKeyBuffers = kKeyBuffersT;
  static constexpr bool kSpill = kSpillT;
  // dS forms beside dV where registers hold both operands (at E 128 they do not: ptxas would serialize all).
  static constexpr bool kOverlapValues = kHeadSize == 64;
  static constexpr int kKeys = 128;
  static constexpr int kWarpgroups = 2;
  static constexpr int kThreads = 384;
  static constexpr int kKeyBytes = kKeys * kHeadSize * 2;
  static constexpr int kQueryBytes = kQueries * kHeadSize * 2;
  static constexpr int kStatisticBytes = kQueries * 4;
  static constexpr int kValueOffset = kKeyBuffers * kKeyBytes;
  static constexpr int kQueryOffset = 2 * kKeyBuffers * kKeyBytes;
  static constexpr int kGradientOffset = kQueryOffset + kStages * kQueryBytes;
  static constexpr int kStatisticsOffset = kGradientOffset + kStages * kQueryBytes;
  static constexpr int kBarrierOffset = kStatisticsOffset + 2 * kStages * kStatisticBytes;
  static constexpr int kSharedBytes = kBarrierOffset + 256;
  static_assert(kSharedBytes <= 232448);
};

template <class Tile>
struct KeysBarriers {
  uint64_t keys_full[Tile::kKeyBuffers], keys_empty[Tile::kKeyBuffers];
  uint64_t q_full[Tile::kStages], do_full[Tile::kStages], empty[Tile::kStages];
  TileSlots slots;
};

template <class Tile>
__device__ __forceinline__ void produce(const KeysArguments& p, uint8_t* shared, KeysBarriers<Tile>& barriers) {
  Ring<2> turn;
  Ring<Tile::kKeyBuffers> key_ring;
  Ring<Tile::kStages> ring;
  int index = blockIdx.x;
  while (true) {
    barrier_wait(&barriers.slots.empty[turn.slot], turn.parity ^ 1);
    barriers.slots.tile[turn.slot] = index;
    barrier_arrive(&barriers.slots.full[turn.slot]);
    turn.advance();
    if (index >= p.order.tiles()) break;
    int flat_head, block;
    p.order.locate(index, &flat_head, &block);
    flat_head += p.first_head;
    const int batch = flat_head / p.kv_heads;
    const int kv_head = flat_head - batch * p.kv_heads;
    const int first = block * Tile::kKeys;
    const BlockRange queries = query_blocks(p.visibility, first, first + Tile::kKeys - 1, Tile::kQueries);

    barrier_wait(&barriers.keys_empty[key_ring.slot], key_ring.parity ^ 1);
    uint64_t* keys_full = &barriers.keys_full[key_ring.slot];
    barrier_expect(keys_full, 2 * Tile::kKeyBytes);
    copy_in(shared + key_ring.slot * Tile::kKeyBytes, &p.k, keys_full, first, kv_head, batch);
    copy_in(shared + Tile::kValueOffset + key_ring.slot * Tile::kKeyBytes, &p.v, keys_full, first, kv_head, batch);
    key_ring.advance();
    for (int g = 0; g < p.group; ++g) {
      const int head = kv_head * p.group + g;
      const int64_t rows = static_cast<int64_t>(flat_head * p.group + g) * p.statistics.padded;
      for (int m = queries.begin; m < queries.end; ++m) {
        barrier_wait(&barriers.empty[ring.slot], ring.parity ^ 1);
        uint8_t* statistics = shared + Tile::kStatisticsOffset + 2 * ring.slot * Tile::kStatisticBytes;
        uint64_t* q_full = &barriers.q_full[ring.slot];
        barrier_expect(q_full, Tile::kQueryBytes + Tile::kStatisticBytes);
        copy_in(shared + Tile::kQueryOffset + ring.slot * Tile::kQueryBytes, &p.q, q_full, m * Tile::kQueries,
                head, batch);
        copy_in_flat(statistics, p.statistics.lse_log2 + rows + m * Tile::kQueries, Tile::kStatisticBytes,
                     q_full);
        uint64_t* do_full = &barriers.do_full[ring.slot];
        barrier_expect(do_full, Tile::kQueryBytes + Tile::kStatisticBytes);
        copy_in(shared + Tile::kGradientOffset + ring.slot * Tile::kQueryBytes, &p.d_o, do_full,
                m * Tile::kQueries, head, batch);
        copy_in_flat(statistics + Tile::kStatisticBytes, p.statistics.delta + rows + m * Tile::kQueries,
                     Tile::kStatisticBytes, do_full);
        ring.advance();
      }
    }
    index = p.next_tile != nullptr ? static_cast<int>(gridDim.x) + atomicAdd(p.next_tile, 1)
                                   : index + static_cast<int>(gridDim.x);
  }
}

template <class Tile>
struct Consumer {
  static constexpr int kScores = Tile::kQueries / 2;     // accumulator registers of 64 keys x kQueries
  static constexpr int kGradient = Tile::kHeadSize / 2;  // of 64 keys x E

  const KeysArguments& p;
  uint8_t* shared;
  KeysBarriers<Tile>& barriers;
  int warpgroup;
  int thread;
  Ring<Tile::kKeyBuffers> key_ring{};
  Ring<Tile::kStages> ring{};

  __device__ __forceinline__ const uint8_t* query_tile(int slot) const {
    return shared + Tile::kQueryOffset + slot * Tile::kQueryBytes;
  }
  __device__ __forceinline__ const uint8_t* gradient_tile(int slot) const {
    return shared + Tile::kGradientOffset + slot * Tile::kQueryBytes;
  }

  // d[64 keys, kQueries] = rows(64 keys of `keys`) times rows(queries)^T
  __device__ __forceinline__ void transposed_scores(float (&d)[kScores],
                                                    const uint8_t* keys,
                                                    const uint8_t* queries) {
    const uint64_t a = by_columns(keys + warpgroup * 64 * kRowBytes);
    const uint64_t b = by_columns(queries);
#pragma unroll
    for (int i = 0; i < Tile::kHeadSize / 16; ++i) {
      Product<Tile::kQueries>::template shared<0, 0>(d, a + column_step<Tile::kKeys>(i),
                                                     b + column_step<Tile::kQueries>(i), i != 0);
    }
    product_commit();
  }

  // d[64 keys, E] += weights[64 keys, kQueries] times queries[kQueries, E]
  __device__ __forceinline__ void accumulate(float (&d)[kGradient],
                                             const uint32_t (&weights)[kScores / 2],
                                             const uint8_t* queries) {
    const uint64_t b = by_rows(queries, Tile::kQueries);
#pragma unroll
    for (int i = 0; i < Tile::kQueries / 16; ++i) {
      Product<Tile::kHeadSize>::template registers<1>(d, weights + 4 * i, b + row_step(i), 1);
    }
    product_commit();
  }

  __device__ __forceinline__ void hide(float (&s)[kScores], int key, int query) const {
    const Visibility& v = p.visibility;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = key + 8 * r;
      const int begin = row >= v.sequence ? 0x7fffffff : (v.causal ? row : 0);
      const int end = v.window > 0 ? row + v.window : 0x7fffffff;
#pragma unroll
      for (int j = 0; j < kScores; j += 4) {
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          const int column = query + 2 * j + c;
          if (column < begin || column >= end) s[j + 2 * r + c] = -__builtin_huge_valf();
        }
      }
    }
  }

  // Leaves dS^T of 64 keys x kQueries as core matrices (8 keys x 8 queries) in the images of the query pass.
  __device__ __forceinline__ void spill(const uint32_t (&ds)[kScores / 2], int local_head, int m, int n) const {
    constexpr int kImages = Tile::kQueries / SpillLayout::kQueries;
    const int key_group = warpgroup * 8 + (thread / 32) * 2;
#pragma unroll
    for (int image = 0; image < kImages; ++image) {
      const int64_t index = local_head * p.layout.images() + p.layout.index(m * kImages + image, n);
      uint8_t* base = p.spill + index * SpillLayout::kImageBytes + key_group * 1024 + (thread % 32) * 4;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          *reinterpret_cast<uint32_t*>(base + (c % 2) * 1024 + (2 * i + c / 2) * 128) = ds[16 * image + 4 * i + c];
        }
      }
    }
  }

  // Query blocks in turn, over all heads of the group. The tensor cores get, for block i: S_i, dK of block i - 1,
  // dP_i; then, once P_i is ready, dV of block i. So P_i is formed beside dK and dP_i, and dS_i beside dV, and
  // nothing is in flight across the loop's edge.
  __device__ __forceinline__ void walk(int local_head, int block) {
    const int first = block * Tile::kKeys + warpgroup * 64;
    const int key = first + (thread / 32) * 16 + (thread % 32) / 4;
    const BlockRange queries = query_blocks(p.visibility, block * Tile::kKeys,
                                            block * Tile::kKeys + Tile::kKeys - 1, Tile::kQueries);
    const BlockRange whole = whole_query_blocks(p.visibility, first, first + 63, Tile::kQueries);
    const uint8_t* keys = shared + key_ring.slot * Tile::kKeyBytes;
    float dk[kGradient], dv[kGradient];
    uint32_t ds[kScores / 2];
    clear(dk);
    clear(dv);
#pragma unroll
    for (int j = 0; j < kScores / 2; ++j) ds[j] = 0;
    barrier_wait(&barriers.keys_full[key_ring.slot], key_ring.parity);
    int before = ring.slot;  // block i - 1's; for the first block its own, with dS zero
    int m = queries.begin;
    int head = local_head * p.group;
    const int steps = p.group * (queries.end - queries.begin);
    for (int i = 0; i < steps; ++i) {
      const float* statistics =
          reinterpret_cast<const float*>(shared + Tile::kStatisticsOffset + 2 * ring.slot * Tile::kStatisticBytes) +
          2 * (thread % 4);
      float s[kScores], dp[kScores];
      barrier_wait(&barriers.q_full[ring.slot], ring.parity);
      if (kTurns) named_sync(3 + warpgroup, 2 * kWarpgroupThreads);
      product_fence();
      accumulate(dk, ds, query_tile(before));
      transposed_scores(s, keys, query_tile(ring.slot));
      barrier_wait(&barriers.do_full[ring.slot], ring.parity);
      product_fence();
      transposed_scores(dp, keys + Tile::kValueOffset, gradient_tile(ring.slot));
      if (kTurns) named_arrive(3 + (warpgroup ^ 1), 2 * kWarpgroupThreads);
      product_wait<1>();
      pin(s);
      pin(dk);
      if (!contains(whole, m)) hide(s, key, m * Tile::kQueries + 2 * (thread % 4));
      uint32_t probability[kScores / 2];
      probabilities(s, probability, statistics);
      pin(probability);
      product_fence();
      accumulate(dv, probability, gradient_tile(ring.slot));
      if (Tile::kOverlapValues) {
        product_wait<1>();
      } else {
        product_wait<0>();
        pin(dv);
      }
      pin(dp);
      if (i > 0 && thread % 32 == 0) barrier_arrive(&barriers.empty[before]);
      score_gradients(s, dp, ds, statistics + Tile::kQueries);
      pin(ds);
      if (Tile::kSpill) spill(ds, head, m, block);
      if (Tile::kOverlapValues) {
        product_wait<0>();
        pin(dv);
      }
      before = ring.slot;
      ring.advance();
      if (++m == queries.end) {
        m = queries.begin;
        ++head;
      }
    }
    product_fence();
    accumulate(dk, ds, query_tile(before));
    product_wait<0>();
    pin(dk);
    if (thread % 32 == 0) barrier_arrive(&barriers.empty[before]);
    finish(local_head + p.first_head, first, dk, dv);
  }

  // P^T in place and packed.
  __device__ __forceinline__ void probabilities(float (&s)[kScores],
                                                uint32_t (&packed)[kScores / 2],
                                                const float* lse_log2) const {
#pragma unroll
    for (int j = 0; j < kScores; j += 4) {
      const float2 lse = *reinterpret_cast<const float2*>(lse_log2 + 2 * j);
#pragma unroll
      for (int c = 0; c < 4; ++c) s[j + c] = exp2_fast(fmaf(s[j + c], p.scale_log2, c % 2 ? -lse.y : -lse.x));
      packed[j / 2] = pack_bf16(s[j], s[j + 1]);
      packed[j / 2 + 1] = pack_bf16(s[j + 2], s[j + 3]);
    }
  }

  // dS^T = P^T (dP^T - delta), packed.
  __device__ __forceinline__ void score_gradients(const float (&s)[kScores],
                                                  const float (&dp)[kScores],
                                                  uint32_t (&packed)[kScores / 2],
                                                  const float* deltas) const {
#pragma unroll
    for (int j = 0; j < kScores; j += 4) {
      const float2 delta = *reinterpret_cast<const float2*>(deltas + 2 * j);
      packed[j / 2] = pack_bf16(s[j] * (dp[j] - delta.x), s[j + 1] * (dp[j + 1] - delta.y));
      packed[j / 2 + 1] = pack_bf16(s[j + 2] * (dp[j + 2] - delta.x), s[j + 3] * (dp[j + 3] - delta.y));
    }
  }

  // Stages both gradients over this warpgroup's own keys and values, which only it reads.
  __device__ __forceinline__ void finish(int flat_head,
                                         int first,
                                         const float (&dk)[kGradient],
                                         const float (&dv)[kGradient]) {
    const int batch = flat_head / p.kv_heads;
    const int kv_head = flat_head - batch * p.kv_heads;
    uint8_t* keys = shared + key_ring.slot * Tile::kKeyBytes + warpgroup * 64 * kRowBytes;
    uint8_t* values = keys + Tile::kValueOffset;
    named_sync(1 + warpgroup, kWarpgroupThreads);  // all four warps are past their last product
    stage_rows<Tile::kKeys>(values, thread, dv, 1.0f);
    stage_rows<Tile::kKeys>(keys, thread, dk, p.scale);
    shared_writes_to_async();
    named_sync(1 + warpgroup, kWarpgroupThreads);
    if (thread == 0) {
      if (first < p.visibility.sequence) {
        send_rows<Tile::kKeys, Tile::kHeadSize>(&p.dv, values, first, kv_head, batch);
        send_rows<Tile::kKeys, Tile::kHeadSize>(&p.dk, keys, first, kv_head, batch);
        copy_out_wait_read();
      }
      barrier_arrive(&barriers.keys_empty[key_ring.slot]);
    }
    key_ring.advance();
  }
};

template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    flash_attention_backward_keys_kernel(const __grid_constant__ KeysArguments p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) uint8_t shared[];
  auto& barriers = *reinterpret_cast<KeysBarriers<Tile>*>(shared + Tile::kBarrierOffset);
  static_assert(sizeof(barriers) <= 256);
  constexpr int kWarps = 4 * Tile::kWarpgroups;
  if (threadIdx.x == 0) {
    for (int i = 0; i < Tile::kKeyBuffers; ++i) {
      barrier_init(&barriers.keys_full[i], 1);
      barrier_init(&barriers.keys_empty[i], Tile::kWarpgroups);
    }
    for (int i = 0; i < Tile::kStages; ++i) {
      barrier_init(&barriers.q_full[i], 1);
      barrier_init(&barriers.do_full[i], 1);
      barrier_init(&barriers.empty[i], kWarps);
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
    if (kTurns && role == 2) named_arrive(3, 2 * kWarpgroupThreads);
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
cudaError_t launch(const HopperBackward& call, const SpillRound& round, int* next_tile) {
  const AttentionExtents& extents = call.extents;
  const AttentionBackward& operands = call.operands;
  KeysArguments p{};
  const bool mapped = encode_tokens(&p.q, operands.q, extents, extents.heads, Tile::kQueries, kAllChunks) &&
                      encode_tokens(&p.d_o, operands.d_o, extents, extents.heads, Tile::kQueries, kAllChunks) &&
                      encode_tokens(&p.k, operands.k, extents, extents.kv_heads, Tile::kKeys, kAllChunks) &&
                      encode_tokens(&p.v, operands.v, extents, extents.kv_heads, Tile::kKeys, kAllChunks) &&
                      encode_tokens(&p.dk, operands.dk, extents, extents.kv_heads, 64, kOneChunk) &&
                      encode_tokens(&p.dv, operands.dv, extents, extents.kv_heads, 64, kOneChunk);
  if (!mapped) return cudaErrorInvalidValue;
  p.statistics = call.statistics;
  p.spill = round.spill;
  p.visibility = visibility_of(extents);
  p.layout = SpillLayout{p.visibility};
  p.kv_heads = static_cast<int>(extents.kv_heads);
  p.group = static_cast<int>(extents.heads / extents.kv_heads);
  p.first_head = round.first_head;
  p.scale = extents.scale;
  p.scale_log2 = extents.scale * kLog2E;
  p.order.blocks = ceil_div(p.visibility.sequence, Tile::kKeys);
  p.order.heads = round.heads;
  p.order.heads_per_section = section_heads(extents, round.heads, p.group);
  int blocks = 0;
  p.next_tile = tile_counter(p.order.tiles(), next_tile, &blocks);
  return launch_kernel(flash_attention_backward_keys_kernel<Tile>, blocks, Tile::kThreads, Tile::kSharedBytes, p,
                       call.stream);
}

template <int kQueries>
int64_t tile_pairs(const AttentionExtents& extents) {
  const Visibility visibility = visibility_of(extents);
  int64_t blocks = 0;
  for (int first = 0; first < visibility.sequence; first += SpillLayout::kKeys) {
    const BlockRange queries = query_blocks(visibility, first, first + SpillLayout::kKeys - 1, kQueries);
    blocks += queries.end - queries.begin;
  }
  return blocks * kQueries * SpillLayout::kKeys * extents.batch * extents.heads;
}

}  // namespace

cudaError_t launch_backward_keys_hopper(const HopperBackward& call, const SpillRound& round, int* next_tile) {
  if (call.extents.head_size == 64) {
    return round.spill != nullptr ? launch<KeysTile<64, 64, 3, 2, true>>(call, round, next_tile)
                                  : launch<KeysTile<64, 64, 3, 2, false>>(call, round, next_tile);
  }
  return round.spill != nullptr ? launch<KeysTile<128, 64, 3, 2, true>>(call, round, next_tile)
                                : launch<KeysTile<128, 64, 3, 2, false>>(call, round, next_tile);
}

int64_t backward_keys_hopper_pairs(const AttentionExtents& extents) { return tile_pairs<64>(extents); }

}  // namespace ridge::backends::cuda
