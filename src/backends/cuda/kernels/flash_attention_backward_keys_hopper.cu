// SPDX-License-Identifier: Apache-2.0
// Flash attention backward for Hopper: dK and dV (bf16, head sizes 64 and 128), and where dS is spilled dQ as well, by
// query tiles of the same launch. Without a spill dQ is flash_attention_backward_queries_hopper.cu's.
//
// A key tile is 128 keys of one key head, 64 a consumer warpgroup. It walks the queries that see them over all query
// heads of the group, so dK and dV sum in registers in a fixed order, GQA included. Scores are formed transposed
// (keys x queries): P^T and dS^T are then register operands of dV += P^T dO and dK += dS^T Q and never touch shared
// memory; dS^T also goes to device memory as bf16 if asked.
//
// A query tile is 256 queries, 128 a warpgroup, dQ = scale dS K over the images that the key tiles of its head left.
// It is bound by bytes where a key tile is bound by products, so both kinds share one queue and run side by side.
//
// Bound: key tiles 8 E FLOPs a visited pair at the bf16 rate (their shared-memory reads take 75% of that time, E 64
// 62%); query tiles 2 E FLOPs; dS 2 bytes a pair written and read.
#include "backends/cuda/kernels/flash_attention_backward_hopper.cuh"

namespace ridge::backends::cuda {
namespace {

using namespace hopper;

struct KeysArguments {
  CUtensorMap q, k, v, d_o, dq, dk, dv;
  RowStatistics statistics;
  SpillMemory spill;
  SpillLayout layout;
  int* next_tile;
  TileOrder order;         // without a spill
  SpillOrder spill_order;  // with
  Visibility visibility;
  int kv_heads;
  int group;
  float scale;
  float scale_log2;
};

template <int kHeadSizeT, int kStagesT, bool kSpillT>
struct KeysTile {
  static constexpr int kHeadSize = kHeadSizeT;
  static constexpr int kStages = kStagesT;
  static constexpr bool kSpill = kSpillT;
#ifndef RIDGE_KEYS_TURNS
#define RIDGE_KEYS_TURNS 1
#endif
  static constexpr bool kTurns = RIDGE_KEYS_TURNS;
  // dS forms beside dV where registers hold both operands (at E 128 they do not: ptxas would serialize all).
  static constexpr bool kOverlapValues = kHeadSize == 64;
  // Keys and values as register operands of the score products: halves their shared-memory reads.
#ifndef RIDGE_KEYS_REGISTERS
#define RIDGE_KEYS_REGISTERS 1
#endif
  static constexpr bool kKeysInRegisters = kHeadSize == 64 && RIDGE_KEYS_REGISTERS;
  static constexpr int kKeys = 128;
  static constexpr int kQueries = 64;
  static constexpr int kThreads = 384;
  static constexpr int kWarps = 8;  // that consume
  static constexpr int kKeyBytes = kKeys * kHeadSize * 2;
  static constexpr int kQueryBytes = kQueries * kHeadSize * 2;
  static constexpr int kStatisticBytes = kQueries * 4;
  // A buffer holds a tile's keys and values, or four images of dS. Two of them: the next lands while this one's
  // gradients leave.
  static constexpr int kBuffers = 2;
  static constexpr int kImages = 4;
  static constexpr int kImageBytes = SpillLayout::kImageBytes;
  static constexpr int kBufferBytes =
      kSpill && kImages * kImageBytes > 2 * kKeyBytes ? kImages * kImageBytes : 2 * kKeyBytes;
  // A stage holds 64 queries of Q and dO, or 128 keys of K.
  static constexpr int kStageOffset = kBuffers * kBufferBytes;
  static constexpr int kStageBytes = 2 * kQueryBytes;
  static constexpr int kStatisticsOffset = kStageOffset + kStages * kStageBytes;
  static constexpr int kBarrierOffset = kStatisticsOffset + 2 * kStages * kStatisticBytes;
  static constexpr int kBarrierBytes = 256;
  static constexpr int kSharedBytes = kBarrierOffset + kBarrierBytes;
  static_assert(kSharedBytes <= 232448);
};

template <class Tile>
struct KeysBarriers {
  uint32_t base;
  __device__ __forceinline__ uint32_t at(int index) const { return base + Tile::kBarrierOffset + 8 * index; }
  __device__ __forceinline__ uint32_t tile_full(int slot) const { return at(slot); }
  __device__ __forceinline__ uint32_t tile_empty(int slot) const { return at(2 + slot); }
  __device__ __forceinline__ uint32_t tile(int slot) const { return at(4 + slot); }
  __device__ __forceinline__ uint32_t buffer_full(int slot) const { return at(6 + slot); }
  __device__ __forceinline__ uint32_t buffer_empty(int slot) const { return at(8 + slot); }
  __device__ __forceinline__ uint32_t full(int slot) const { return at(10 + slot); }
  __device__ __forceinline__ uint32_t empty(int slot) const { return at(10 + Tile::kStages + slot); }
  static_assert(8 * (10 + 2 * Tile::kStages) <= Tile::kBarrierBytes && Tile::kBuffers == 2);

  __device__ __forceinline__ uint32_t buffer(int slot) const { return base + slot * Tile::kBufferBytes; }
  __device__ __forceinline__ uint32_t stage(int slot) const {
    return base + Tile::kStageOffset + slot * Tile::kStageBytes;
  }
  __device__ __forceinline__ uint32_t statistics(int slot) const {
    return base + Tile::kStatisticsOffset + 2 * slot * Tile::kStatisticBytes;
  }

  __device__ __forceinline__ void init() const {
    for (int i = 0; i < 2; ++i) {
      barrier_init(tile_full(i), 1);
      barrier_init(tile_empty(i), Tile::kWarps);
      barrier_init(buffer_full(i), 1);
      barrier_init(buffer_empty(i), Tile::kWarps);
    }
    for (int i = 0; i < Tile::kStages; ++i) {
      barrier_init(full(i), 1);
      barrier_init(empty(i), Tile::kWarps);
    }
    barrier_init_fence();
  }
};

// What a number in the queue stands for.
struct Work {
  bool is_query;
  int flat_head;  // b K + key head
  int block;      // of 128 keys, or of 256 queries
  int member;     // query head within the group, of a query tile
};

template <class Tile>
__device__ __forceinline__ int work_count(const KeysArguments& p) {
  return Tile::kSpill ? p.spill_order.tiles() : p.order.tiles();
}

template <class Tile>
__device__ __forceinline__ Work locate(const KeysArguments& p, int index) {
  Work work{};
  if (Tile::kSpill) {
    const SpillOrder::Tile tile = p.spill_order.locate(index);
    work.is_query = tile.is_query;
    work.flat_head = tile.head;
    work.block = tile.rank;
    if (tile.is_query) {
      const int turn = tile.rank / p.group;
      work.member = tile.rank - turn * p.group;
      work.block = p.spill_order.query_tiles / p.group - 1 - turn;
    }
  } else {
    p.order.locate(index, &work.flat_head, &work.block);
  }
  return work;
}

// Key blocks of a query tile: its query blocks' ranges overlap and only move right.
__device__ __forceinline__ BlockRange image_range(const SpillLayout& layout, int block) {
  BlockRange range = layout.keys_of(4 * block);
  for (int i = 1; i < 4; ++i) {
    const BlockRange next = layout.keys_of(4 * block + i);
    if (next.end > range.end) range.end = next.end;
  }
  return range;
}

__device__ __forceinline__ uint8_t* head_images(const KeysArguments& p, int flat_head, int member) {
  const int64_t head = static_cast<int64_t>(flat_head % p.spill.ring) * p.group + member;
  return p.spill.images + head * p.layout.images() * SpillLayout::kImageBytes;
}

template <class Tile>
struct Producer {
  const KeysArguments& p;
  KeysBarriers<Tile> barriers;
  Ring<Tile::kBuffers> buffers{};
  Ring<Tile::kStages> ring{};

  __device__ __forceinline__ uint32_t claim_buffer(uint32_t bytes) {
    barrier_wait(barriers.buffer_empty(buffers.slot), buffers.parity ^ 1);
    const uint32_t full = barriers.buffer_full(buffers.slot);
    barrier_expect(full, bytes);
    return full;
  }
  __device__ __forceinline__ uint32_t claim_stage(uint32_t bytes) {
    barrier_wait(barriers.empty(ring.slot), ring.parity ^ 1);
    const uint32_t full = barriers.full(ring.slot);
    barrier_expect(full, bytes);
    return full;
  }

  __device__ __forceinline__ void fetch_keys(const Work& work, int batch, int kv_head) {
    if (Tile::kSpill && work.flat_head >= p.spill.ring) {
      counter_acquire(p.spill.taken + work.flat_head - p.spill.ring, 2 * p.spill_order.query_tiles);
    }
    const int first = work.block * Tile::kKeys;
    const BlockRange queries = query_blocks(p.visibility, first, first + Tile::kKeys - 1, Tile::kQueries);
    const uint32_t keys_full = claim_buffer(2 * Tile::kKeyBytes);
    const uint32_t buffer = barriers.buffer(buffers.slot);
    copy_in(buffer, &p.k, keys_full, first, kv_head, batch);
    copy_in(buffer + Tile::kKeyBytes, &p.v, keys_full, first, kv_head, batch);
    buffers.advance();
#pragma unroll 1
    for (int g = 0; g < p.group; ++g) {
      const int head = kv_head * p.group + g;
      const int64_t rows = static_cast<int64_t>(work.flat_head * p.group + g) * p.statistics.padded;
#pragma unroll 1
      for (int m = queries.begin; m < queries.end; ++m) {
        const uint32_t full = claim_stage(Tile::kStageBytes + 2 * Tile::kStatisticBytes);
        const uint32_t stage = barriers.stage(ring.slot);
        const uint32_t statistics = barriers.statistics(ring.slot);
        const int64_t row = rows + m * Tile::kQueries;
        copy_in(stage, &p.q, full, m * Tile::kQueries, head, batch);
        copy_in_flat(statistics, p.statistics.lse_log2 + row, Tile::kStatisticBytes, full);
        copy_in(stage + Tile::kQueryBytes, &p.d_o, full, m * Tile::kQueries, head, batch);
        copy_in_flat(statistics + Tile::kStatisticBytes, p.statistics.delta + row, Tile::kStatisticBytes, full);
        ring.advance();
      }
    }
  }

  __device__ __forceinline__ void fetch_images(const Work& work, int batch, int kv_head) {
    counter_acquire(p.spill.stored + work.flat_head, 2 * p.spill_order.key_tiles);
    global_to_async();
    const uint8_t* images = head_images(p, work.flat_head, work.member);
    const BlockRange range = image_range(p.layout, work.block);
#pragma unroll 1
    for (int n = range.begin; n < range.end; ++n) {
      int count = 0;
#pragma unroll 1
      for (int i = 0; i < Tile::kImages; ++i) {
        count += contains(p.layout.keys_of(Tile::kImages * work.block + i), n);
      }
      const uint32_t images_full = claim_buffer(count * Tile::kImageBytes);
#pragma unroll 1
      for (int i = 0; i < Tile::kImages; ++i) {
        const int m = Tile::kImages * work.block + i;
        if (!contains(p.layout.keys_of(m), n)) continue;
        copy_in_flat(barriers.buffer(buffers.slot) + i * Tile::kImageBytes,
                     images + static_cast<int64_t>(p.layout.index(m, n)) * Tile::kImageBytes, Tile::kImageBytes,
                     images_full);
      }
      buffers.advance();
      const uint32_t full = claim_stage(Tile::kKeyBytes);
      copy_in(barriers.stage(ring.slot), &p.k, full, n * Tile::kKeys, kv_head, batch);
      ring.advance();
    }
  }

  __device__ __forceinline__ void run() {
    Ring<2> turn;
    int index = blockIdx.x;
    while (true) {
      barrier_wait(barriers.tile_empty(turn.slot), turn.parity ^ 1);
      store_shared_int(barriers.tile(turn.slot), index);
      barrier_arrive(barriers.tile_full(turn.slot));
      turn.advance();
      if (index >= work_count<Tile>(p)) break;
      const Work work = locate<Tile>(p, index);
      const int batch = work.flat_head / p.kv_heads;
      const int kv_head = work.flat_head - batch * p.kv_heads;
      if (Tile::kSpill && work.is_query) {
        fetch_images(work, batch, kv_head);
      } else {
        fetch_keys(work, batch, kv_head);
      }
      index = p.next_tile != nullptr ? static_cast<int>(gridDim.x) + atomicAdd(p.next_tile, 1)
                                     : index + static_cast<int>(gridDim.x);
    }
  }
};

template <class Tile>
struct Consumer {
  static constexpr int kScores = Tile::kQueries / 2;     // accumulator registers of 64 keys x 64 queries
  static constexpr int kGradient = Tile::kHeadSize / 2;  // of 64 rows x E

  const KeysArguments& p;
  KeysBarriers<Tile> barriers;
  int warpgroup;
  int thread;
  Ring<Tile::kBuffers> buffers{};
  Ring<Tile::kStages> ring{};

  __device__ __forceinline__ void arrive(uint32_t barrier) const {
    if (thread % 32 == 0) barrier_arrive(barrier);
  }

  // This warp's 16 rows of this warpgroup's 64, as register operands.
  __device__ __forceinline__ void load_rows(uint32_t (&a)[Tile::kHeadSize / 4], uint32_t rows) const {
    const int lane = thread % 32;
    const uint32_t address = rows + (warpgroup * 64 + own_row(thread)) * kRowBytes;
#pragma unroll
    for (int i = 0; i < Tile::kHeadSize / 16; ++i) {
      uint32_t m[4];
      load_matrices(address + (i / 4) * Tile::kKeys * kRowBytes + ((2 * (i % 4) + lane / 16) ^ (lane % 8)) * 16, m);
#pragma unroll
      for (int c = 0; c < 4; ++c) a[4 * i + c] = m[c];
    }
  }

  // d[64 keys, 64 queries] = rows(64 of `keys`) times rows(queries)^T; `held` are those keys in registers.
  __device__ __forceinline__ void transposed_scores(float (&d)[kScores],
                                                    uint32_t keys,
                                                    const uint32_t (&held)[Tile::kHeadSize / 4],
                                                    uint32_t queries) {
    const uint64_t a = by_columns(keys + warpgroup * 64 * kRowBytes);
    const uint64_t b = by_columns(queries);
#pragma unroll
    for (int i = 0; i < Tile::kHeadSize / 16; ++i) {
      if (Tile::kKeysInRegisters) {
        Product<Tile::kQueries>::template registers<0>(d, held + 4 * i, b + column_step<Tile::kQueries>(i), i != 0);
      } else {
        Product<Tile::kQueries>::template shared<0, 0>(d, a + column_step<Tile::kKeys>(i),
                                                       b + column_step<Tile::kQueries>(i), i != 0);
      }
    }
    product_commit();
  }

  // d[64 keys, E] += weights[64 keys, 64 queries] times queries[64, E]
  __device__ __forceinline__ void accumulate(float (&d)[kGradient],
                                             const uint32_t (&weights)[kScores / 2],
                                             uint32_t queries) {
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

  // P^T in place and packed. `statistics` is this thread's 64 bytes of lse.
  __device__ __forceinline__ void probabilities(float (&s)[kScores],
                                                uint32_t (&packed)[kScores / 2],
                                                const float4 (&lse)[4]) const {
#pragma unroll
    for (int j = 0; j < kScores; j += 4) {
      const float4& v = lse[j / 8];
      const float low = j % 8 == 0 ? v.x : v.z;
      const float high = j % 8 == 0 ? v.y : v.w;
#pragma unroll
      for (int c = 0; c < 4; ++c) s[j + c] = exp2_fast(fmaf(s[j + c], p.scale_log2, c % 2 == 0 ? -low : -high));
      packed[j / 2] = pack_bf16(s[j], s[j + 1]);
      packed[j / 2 + 1] = pack_bf16(s[j + 2], s[j + 3]);
    }
  }

  // dS^T = P^T (dP^T - delta), packed.
  __device__ __forceinline__ void score_gradients(const float (&s)[kScores],
                                                  const float (&dp)[kScores],
                                                  uint32_t (&packed)[kScores / 2],
                                                  const float4 (&delta)[4]) const {
#pragma unroll
    for (int j = 0; j < kScores; j += 4) {
      const float4& v = delta[j / 8];
      const float low = j % 8 == 0 ? v.x : v.z;
      const float high = j % 8 == 0 ? v.y : v.w;
      packed[j / 2] = pack_bf16(s[j] * (dp[j] - low), s[j + 1] * (dp[j + 1] - high));
      packed[j / 2 + 1] = pack_bf16(s[j + 2] * (dp[j + 2] - low), s[j + 3] * (dp[j + 3] - high));
    }
  }

  __device__ __forceinline__ void load_statistics(float4 (&values)[4], uint32_t address) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) values[i] = load_shared_float4(address + 16 * i);
  }

  // An image is core matrices of 8 keys x 8 queries, 16 bytes a key, as a transposed left operand is read. A thread's
  // four neighbouring registers of a key hold queries 8 j + 2 t and the next of a group of 32; they are stored as
  // octet t of the group, so an image's query rows are permuted (`image_query`) and a warp stores 512 bytes at once.
  __device__ __forceinline__ void spill(const uint32_t (&ds)[kScores / 2], uint8_t* image) const {
    const int lane = thread % 32;
    uint8_t* base =
        image + (warpgroup * 8 + (thread / 32) * 2) * 1024 + (lane % 4) * 128 + (lane / 4) * 16;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int group = 0; group < 2; ++group) {
        const uint32_t* d = ds + 8 * group + half;
        *reinterpret_cast<uint4*>(base + half * 1024 + group * 512) = make_uint4(d[0], d[2], d[4], d[6]);
      }
    }
  }
  __device__ __forceinline__ static int image_query(int row) {
    const int octet = row / 8;
    const int x = row % 8;
    return 32 * (octet / 4) + 8 * (x / 2) + 2 * (octet % 4) + x % 2;
  }

  // A key tile: query blocks in turn, over all heads of the group. The tensor cores get, for block i: dK of block
  // i - 1, S_i, dP_i; then, once P_i is ready, dV of block i. So P_i is formed beside dP_i, and nothing is in flight
  // across the loop's edge.
  __device__ __forceinline__ void walk_queries(const Work& work, int batch, int kv_head) {
    const int first = work.block * Tile::kKeys + warpgroup * 64;
    const int key = first + (thread / 32) * 16 + (thread % 32) / 4;
    const BlockRange queries = query_blocks(p.visibility, work.block * Tile::kKeys,
                                            work.block * Tile::kKeys + Tile::kKeys - 1, Tile::kQueries);
    const BlockRange whole = whole_query_blocks(p.visibility, first, first + 63, Tile::kQueries);
    const uint32_t keys = barriers.buffer(buffers.slot);
    const uint32_t quad_offset = (thread % 4) * 64;
    float dk[kGradient], dv[kGradient];
    uint32_t ds[kScores / 2];
    clear(dk);
    clear(dv);
    clear(ds);
    barrier_wait(barriers.buffer_full(buffers.slot), buffers.parity);
    uint32_t held_keys[Tile::kHeadSize / 4], held_values[Tile::kHeadSize / 4];
    if (Tile::kKeysInRegisters) {
      load_rows(held_keys, keys);
      load_rows(held_values, keys + Tile::kKeyBytes);
    }
    int before = ring.slot;  // block i - 1's; for the first block its own, with dS zero
    int m = queries.begin;
    int member = 0;
    uint8_t* images = Tile::kSpill ? head_images(p, work.flat_head, 0) : nullptr;
    const int steps = p.group * (queries.end - queries.begin);
    for (int i = 0; i < steps; ++i) {
      float s[kScores], dp[kScores];
      const uint32_t stage = barriers.stage(ring.slot);
      barrier_wait(barriers.full(ring.slot), ring.parity);
      if (Tile::kTurns) named_sync(3 + warpgroup, 2 * kWarpgroupThreads);
      product_fence();
      accumulate(dk, ds, barriers.stage(before));
      transposed_scores(s, keys, held_keys, stage);
      transposed_scores(dp, keys + Tile::kKeyBytes, held_values, stage + Tile::kQueryBytes);
      if (Tile::kTurns) named_arrive(3 + (warpgroup ^ 1), 2 * kWarpgroupThreads);
      float4 statistics[4];
      load_statistics(statistics, barriers.statistics(ring.slot) + quad_offset);
      product_wait<1>();
      pin(s);
      pin(dk);
      if (i > 0) arrive(barriers.empty(before));
      if (!contains(whole, m)) hide(s, key, m * Tile::kQueries + 2 * (thread % 4));
      uint32_t probability[kScores / 2];
      probabilities(s, probability, statistics);
      pin(probability);
      product_fence();
      accumulate(dv, probability, stage + Tile::kQueryBytes);
      load_statistics(statistics, barriers.statistics(ring.slot) + Tile::kStatisticBytes + quad_offset);
      if (Tile::kOverlapValues) {
        product_wait<1>();
      } else {
        product_wait<0>();
        pin(dv);
      }
      pin(dp);
      score_gradients(s, dp, ds, statistics);
      pin(ds);
      if (Tile::kSpill) {
        spill(ds, images + static_cast<int64_t>(p.layout.index(m, work.block)) * Tile::kImageBytes);
      }
      if (Tile::kOverlapValues) {
        product_wait<0>();
        pin(dv);
      }
      before = ring.slot;
      ring.advance();
      if (++m == queries.end) {
        m = queries.begin;
        if (Tile::kSpill) images = head_images(p, work.flat_head, ++member);
      }
    }
    product_fence();
    accumulate(dk, ds, barriers.stage(before));
    product_wait<0>();
    pin(dk);
    arrive(barriers.empty(before));
    send_gradients(work, first, batch, kv_head, dk, dv);
  }

  // Stages both gradients over this warpgroup's own keys and values, which only it reads.
  __device__ __forceinline__ void send_gradients(const Work& work,
                                                 int first,
                                                 int batch,
                                                 int kv_head,
                                                 const float (&dk)[kGradient],
                                                 const float (&dv)[kGradient]) {
    const uint32_t keys = barriers.buffer(buffers.slot) + warpgroup * 64 * kRowBytes;
    const uint32_t values = keys + Tile::kKeyBytes;
    named_sync(1 + warpgroup, kWarpgroupThreads);  // all four warps are past their last product
    stage_rows<Tile::kKeys>(values, own_row(thread), thread % 32, dv, 1.0f);
    stage_rows<Tile::kKeys>(keys, own_row(thread), thread % 32, dk, p.scale);
    shared_writes_to_async();
    if (Tile::kSpill) global_to_async();
    named_sync(1 + warpgroup, kWarpgroupThreads);
    if (thread == 0) {
      if (Tile::kSpill) {
        __threadfence();
        counter_release(p.spill.stored + work.flat_head);
      }
      if (first < p.visibility.sequence) {
        send_rows<Tile::kKeys, Tile::kHeadSize>(&p.dv, values, first, kv_head, batch);
        send_rows<Tile::kKeys, Tile::kHeadSize>(&p.dk, keys, first, kv_head, batch);
        copy_out_wait_read();
      }
      barrier_arrive(barriers.buffer_empty(buffers.slot), 4);  // for the warpgroup's four warps
    }
    buffers.advance();
  }

  // dq[64 queries, E] += image[64 queries, 128 keys] times keys[128, E]
  __device__ __forceinline__ void multiply_image(float (&dq)[kGradient], uint32_t image, uint32_t keys) {
    const uint64_t a = descriptor(image, 1024, 128, 0);
    const uint64_t b = by_rows(keys, Tile::kKeys);
#pragma unroll
    for (int i = 0; i < Tile::kKeys / 16; ++i) {
      Product<Tile::kHeadSize>::template shared<1, 1>(dq, a + row_step(i), b + row_step(i), 1);
    }
  }

  // A query tile: this warpgroup's two query blocks over the key blocks of their head.
  __device__ __forceinline__ void walk_images(const Work& work, int batch, int kv_head) {
    const int m = Tile::kImages * work.block + 2 * warpgroup;
    const BlockRange range = image_range(p.layout, work.block);
    const BlockRange low = p.layout.keys_of(m);
    const BlockRange high = p.layout.keys_of(m + 1);
    const uint32_t own = 2 * warpgroup * Tile::kImageBytes;
    float dq_low[kGradient], dq_high[kGradient];
    clear(dq_low);
    clear(dq_high);
    for (int n = range.begin; n < range.end; ++n) {
      barrier_wait(barriers.buffer_full(buffers.slot), buffers.parity);
      barrier_wait(barriers.full(ring.slot), ring.parity);
      const uint32_t image = barriers.buffer(buffers.slot) + own;
      product_fence();
      if (contains(low, n)) multiply_image(dq_low, image, barriers.stage(ring.slot));
      if (contains(high, n)) multiply_image(dq_high, image + Tile::kImageBytes, barriers.stage(ring.slot));
      product_commit();
      product_wait<0>();
      pin(dq_low);
      pin(dq_high);
      arrive(barriers.empty(ring.slot));
      ring.advance();
      if (n + 1 < range.end) {
        arrive(barriers.buffer_empty(buffers.slot));
        buffers.advance();
      }
    }
    send_queries(work, m * SpillLayout::kQueries, batch, kv_head, dq_low, dq_high);
  }

  // Stages dQ over this warpgroup's own images in the last buffer.
  __device__ __forceinline__ void send_queries(const Work& work,
                                               int first,
                                               int batch,
                                               int kv_head,
                                               const float (&dq_low)[kGradient],
                                               const float (&dq_high)[kGradient]) {
    const uint32_t rows = barriers.buffer(buffers.slot) + 2 * warpgroup * Tile::kImageBytes;
    const int row = image_query(own_row(thread));
    const int head = kv_head * p.group + work.member;
    named_sync(1 + warpgroup, kWarpgroupThreads);
    stage_rows<64>(rows, row, thread % 32, dq_low, p.scale);
    stage_rows<64>(rows + Tile::kImageBytes, row, thread % 32, dq_high, p.scale);
    shared_writes_to_async();
    named_sync(1 + warpgroup, kWarpgroupThreads);
    if (thread == 0) {
      counter_release(p.spill.taken + work.flat_head);
      if (first < p.visibility.sequence) {
        send_rows<64, Tile::kHeadSize>(&p.dq, rows, first, head, batch);
        if (first + 64 < p.visibility.sequence) {
          send_rows<64, Tile::kHeadSize>(&p.dq, rows + Tile::kImageBytes, first + 64, head, batch);
        }
        copy_out_wait_read();
      }
      barrier_arrive(barriers.buffer_empty(buffers.slot), 4);
    }
    buffers.advance();
  }
};

template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    flash_attention_backward_keys_kernel(const __grid_constant__ KeysArguments p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) uint8_t shared[];
  const KeysBarriers<Tile> barriers{shared_address(shared)};
  if (threadIdx.x == 0) barriers.init();
  __syncthreads();
  const int role = __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / kWarpgroupThreads, 0);
  if (role == 0) {
    give_registers<24>();
    if (threadIdx.x == 0) Producer<Tile>{p, barriers}.run();
  } else {
    take_registers<240>();
    Consumer<Tile> consumer{p, barriers, role - 1, static_cast<int>(threadIdx.x) % kWarpgroupThreads};
    if (Tile::kTurns && role == 2) named_arrive(3, 2 * kWarpgroupThreads);
    Ring<2> turn;
    while (true) {
      barrier_wait(barriers.tile_full(turn.slot), turn.parity);
      const int index = __shfl_sync(0xffffffff, load_shared_int(barriers.tile(turn.slot)), 0);
      consumer.arrive(barriers.tile_empty(turn.slot));
      turn.advance();
      if (index >= work_count<Tile>(p)) break;
      const Work work = locate<Tile>(p, index);
      const int batch = work.flat_head / p.kv_heads;
      const int kv_head = work.flat_head - batch * p.kv_heads;
      if (Tile::kSpill && __any_sync(0xffffffff, work.is_query)) {
        consumer.walk_images(work, batch, kv_head);
      } else {
        consumer.walk_queries(work, batch, kv_head);
      }
    }
  }
#else
  __trap();
#endif
}

// Enough key tiles in a section to mix their lengths, and so many sections of lag that a head's key tiles are done
// when its query tiles come up.
constexpr int kSectionTiles = 66;
constexpr int kLagTiles = 220;

SpillOrder spill_order(const AttentionExtents& extents, int ring) {
  const int group = static_cast<int>(extents.heads / extents.kv_heads);
  const int sequence = static_cast<int>(extents.sequence);
  SpillOrder order;
  order.heads = static_cast<int>(extents.batch * extents.kv_heads);
  order.key_tiles = ceil_div(sequence, SpillLayout::kKeys);
  order.query_tiles = group * ceil_div(sequence, 4 * SpillLayout::kQueries);
  order.section = kSectionTiles / order.key_tiles < 1 ? 1 : kSectionTiles / order.key_tiles;
  order.lag = ceil_div(kLagTiles, order.section * order.key_tiles);
  order.ring = (order.lag + 2) * order.section;
  if (order.ring > order.heads) order.ring = order.heads;
  if (ring > 0 && ring < order.ring) {
    order.ring = ring;
    order.section = ring / 4 < 1 ? 1 : ring / 4;
    order.lag = ring / order.section - 1;
  }
  return order;
}

template <class Tile>
cudaError_t launch(const HopperBackward& call, const SpillMemory& spill, int* next_tile) {
  const AttentionExtents& extents = call.extents;
  const AttentionBackward& operands = call.operands;
  KeysArguments p{};
  const bool mapped = encode_tokens(&p.q, operands.q, extents, extents.heads, Tile::kQueries, kAllChunks) &&
                      encode_tokens(&p.d_o, operands.d_o, extents, extents.heads, Tile::kQueries, kAllChunks) &&
                      encode_tokens(&p.k, operands.k, extents, extents.kv_heads, Tile::kKeys, kAllChunks) &&
                      encode_tokens(&p.v, operands.v, extents, extents.kv_heads, Tile::kKeys, kAllChunks) &&
                      encode_tokens(&p.dq, operands.dq, extents, extents.heads, 64, kOneChunk) &&
                      encode_tokens(&p.dk, operands.dk, extents, extents.kv_heads, 64, kOneChunk) &&
                      encode_tokens(&p.dv, operands.dv, extents, extents.kv_heads, 64, kOneChunk);
  if (!mapped) return cudaErrorInvalidValue;
  p.statistics = call.statistics;
  p.spill = spill;
  p.visibility = visibility_of(extents);
  p.layout = SpillLayout{p.visibility};
  p.kv_heads = static_cast<int>(extents.kv_heads);
  p.group = static_cast<int>(extents.heads / extents.kv_heads);
  p.scale = extents.scale;
  p.scale_log2 = extents.scale * kLog2E;
  p.order.blocks = ceil_div(p.visibility.sequence, Tile::kKeys);
  p.order.heads = static_cast<int>(extents.batch * extents.kv_heads);
  p.order.heads_per_section = section_heads(extents, p.order.heads, p.group);
  p.spill_order = spill_order(extents, spill.ring);
  p.spill.ring = p.spill_order.ring;
  const int tiles = Tile::kSpill ? p.spill_order.tiles() : p.order.tiles();
  const int places = multiprocessors();
  const int blocks = tiles < places ? tiles : places;
  p.next_tile = Tile::kSpill || tiles > blocks ? next_tile : nullptr;
  return launch_kernel(flash_attention_backward_keys_kernel<Tile>, blocks, Tile::kThreads, Tile::kSharedBytes, p,
                       call.stream);
}

}  // namespace

int backward_spill_ring(const AttentionExtents& extents) { return spill_order(extents, 0).ring; }

cudaError_t launch_backward_keys_hopper(const HopperBackward& call, const SpillMemory& spill, int* next_tile) {
  if (call.extents.head_size == 64) {
    return spill.images != nullptr ? launch<KeysTile<64, 4, true>>(call, spill, next_tile)
                                   : launch<KeysTile<64, 4, false>>(call, spill, next_tile);
  }
  return spill.images != nullptr ? launch<KeysTile<128, 3, true>>(call, spill, next_tile)
                                 : launch<KeysTile<128, 3, false>>(call, spill, next_tile);
}

int64_t backward_keys_hopper_pairs(const AttentionExtents& extents) {
  const Visibility visibility = visibility_of(extents);
  int64_t blocks = 0;
  for (int first = 0; first < visibility.sequence; first += SpillLayout::kKeys) {
    const BlockRange queries = query_blocks(visibility, first, first + SpillLayout::kKeys - 1, SpillLayout::kQueries);
    blocks += queries.end - queries.begin;
  }
  return blocks * SpillLayout::kQueries * SpillLayout::kKeys * extents.batch * extents.heads;
}

}  // namespace ridge::backends::cuda
