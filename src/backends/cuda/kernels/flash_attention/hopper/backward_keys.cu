// SPDX-License-Identifier: Apache-2.0
// Flash attention backward for Hopper: dK and dV (bf16, head sizes 64 and 128). If dS is spilled,
// query tiles of the same launch compute dQ, too; without a spill, backward_queries.cu does.
//
// A key tile is 128 keys of one key head, 64 per consumer warpgroup. It iterates over the queries
// that attend to them, over all query heads of the group, so dK and dV are summed in registers in a
// fixed order, including GQA. Scores are computed transposed (keys x queries): P^T and dS^T are
// then register operands of dV += P^T dO and dK += dS^T Q and never go through shared memory. If
// requested, dS^T is also written to device memory as bf16.
//
// A query tile is 256 queries, 128 per warpgroup: dQ = scale dS K over the images (tiles of dS)
// that the key tiles of its head stored. It is bound by memory, while a key tile is bound by
// products, so both kinds share one queue and run concurrently.
//
// Bound: key tiles 8 E FLOPs per visited pair at the bf16 rate (their shared-memory reads take 75%
// of that time, 62% for E 64); query tiles 2 E FLOPs; dS 2 bytes per pair written and read.
#include "backends/cuda/kernels/flash_attention/hopper/backward_keys_tile.cuh"

namespace ridge::backends::cuda {
namespace {

using namespace backward_keys;

template <class Tile>
struct Consumer {
  static constexpr int kScores =
      Tile::kQueries / 2;  // accumulator registers of 64 keys x 64 queries
  static constexpr int kGradient = Tile::kHeadSize / 2;  // so many hold 64 rows x E

  const KeysArguments& p;
  KeysBarriers<Tile> barriers;
  int warpgroup;
  int thread;
  Ring<Tile::kSlots> slots{};
  Ring<Tile::kStages> ring{};

  // Loads this warp's 16 of the warpgroup's 64 rows as register operands.
  __device__ __forceinline__ void load_rows(uint32_t (&a)[Tile::kHeadSize / 4],
                                            uint32_t rows) const {
    const int lane = thread % 32;
    const uint32_t address = rows + (warpgroup * 64 + own_row(thread)) * kRowBytes;
#pragma unroll
    for (int i = 0; i < Tile::kHeadSize / 16; ++i) {
      uint32_t m[4];
      load_matrices(address + (i / 4) * Tile::kKeys * kRowBytes +
                        ((2 * (i % 4) + lane / 16) ^ (lane % 8)) * 16,
                    m);
#pragma unroll
      for (int c = 0; c < 4; ++c) a[4 * i + c] = m[c];
    }
  }

  // d[64 keys, 64 queries] (+)= rows(64 of `keys`) times rows(queries)^T; `held` has those keys in
  // registers.
  __device__ __forceinline__ void transposed_scores(float (&d)[kScores],
                                                    uint32_t keys,
                                                    const uint32_t (&held)[Tile::kHeadSize / 4],
                                                    uint32_t queries,
                                                    int accumulate) {
    const uint64_t a = by_columns(keys + warpgroup * 64 * kRowBytes);
    const uint64_t b = by_columns(queries);
#pragma unroll
    for (int i = 0; i < Tile::kHeadSize / 16; ++i) {
      if (Tile::kKeysInRegisters) {
        Product<Tile::kQueries>::template registers<0>(
            d, held + 4 * i, b + column_step<Tile::kQueries>(i), accumulate | (i != 0));
      } else {
        Product<Tile::kQueries>::template shared<0, 0>(d, a + column_step<Tile::kKeys>(i),
                                                       b + column_step<Tile::kQueries>(i),
                                                       accumulate | (i != 0));
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

  // Computes P^T in place and packed.
  __device__ __forceinline__ void probabilities(float (&s)[kScores],
                                                uint32_t (&packed)[kScores / 2],
                                                const float2 (&minus_lse)[kScores / 4]) const {
#pragma unroll
    for (int j = 0; j < kScores; ++j) {
      const float2 v = minus_lse[j / 4];
      s[j] = exp2_fast(fmaf(s[j], p.scale_log2, j % 2 == 0 ? v.x : v.y));
    }
#pragma unroll
    for (int j = 0; j < kScores; j += 2) packed[j / 2] = pack_bf16(s[j], s[j + 1]);
  }

  // dS^T = P^T (dP^T - delta), packed; dp starts at -delta.
  __device__ __forceinline__ void score_gradients(const float (&s)[kScores],
                                                  const float (&dp)[kScores],
                                                  uint32_t (&packed)[kScores / 2]) const {
#pragma unroll
    for (int j = 0; j < kScores; j += 2)
      packed[j / 2] = pack_bf16(s[j] * dp[j], s[j + 1] * dp[j + 1]);
  }

  // Load the row statistics of the block in stage `slot`. Loads from shared memory queue behind
  // issued products, so they are issued long before their use.
  __device__ __forceinline__ void load_lse(float2 (&minus_lse)[kScores / 4], int slot) const {
    const uint32_t address = barriers.lse(slot) + (thread % 4) * 8;
#pragma unroll
    for (int j = 0; j < kScores / 4; ++j) minus_lse[j] = load_shared_float2(address + 32 * j);
  }
  // dP^T starts at -delta instead of 0.
  __device__ __forceinline__ void start_gradients(float (&dp)[kScores], int slot) const {
    const uint32_t address = barriers.delta(slot) + (thread % 4) * 16;
#pragma unroll
    for (int j = 0; j < kScores; j += 4) {
      const float4 v = load_shared_float4(address + 16 * j);
      dp[j] = v.x;
      dp[j + 1] = v.y;
      dp[j + 2] = v.z;
      dp[j + 3] = v.w;
    }
  }

  // An image consists of core matrices of 8 keys x 8 queries, 16 bytes per key, the form in which
  // the tensor cores read a transposed left operand. A warp stores one core matrix per instruction,
  // directly from its registers.
  __device__ __forceinline__ void spill(const uint32_t (&ds)[kScores / 2], uint8_t* image) const {
    uint8_t* base = image + (warpgroup * 8 + (thread / 32) * 2) * 1024 + (thread % 32) * 4;
#pragma unroll
    for (int i = 0; i < kScores / 8; ++i) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        *reinterpret_cast<uint32_t*>(base + (c % 2) * 1024 + (2 * i + c / 2) * 128) = ds[4 * i + c];
      }
    }
  }

  // Skips a query block that attends to none of this warpgroup's keys, only to other keys of the
  // tile.
  __device__ __forceinline__ void skip_block(uint8_t* image) {
    barrier_wait(barriers.full(ring.slot), ring.parity);
    if (Tile::kPingPong) {
      named_sync(1 + warpgroup, 2 * kWarpgroupThreads);
      named_arrive(1 + (warpgroup ^ 1), 2 * kWarpgroupThreads);
    }
    if (Tile::kSpill) {
      uint32_t nothing[kScores / 2];
      clear(nothing);
      spill(nothing, image);
    }
    barrier_arrive(barriers.empty(ring.slot));
    ring.advance();
  }

  struct Gradients {
    float dk[kGradient], dv[kGradient];
  };
  struct Held {  // this warp's keys and values as register operands
    uint32_t keys[Tile::kHeadSize / 4], values[Tile::kHeadSize / 4];
  };

  __device__ __forceinline__ uint8_t* block_image(uint8_t* images, int batch, int m, int n) const {
    if (!Tile::kSpill) return nullptr;
    return images +
           static_cast<int64_t>(row_layout<Tile>(p, batch).index(m, n)) * Tile::kImageBytes;
  }

  // Processes the query blocks `own` of one head. For block i the tensor cores compute dK of block
  // i - 1, S_i and dP_i, and then, once P_i is ready, dV of block i. So P_i and dP_i are computed
  // concurrently, and nothing is in flight across iterations of the loop.
  __device__ __forceinline__ void iterate_blocks(Gradients& g,
                                                 const Held& held,
                                                 const BlockRange& own,
                                                 const BlockRange& whole,
                                                 int batch,
                                                 int first,
                                                 int n,
                                                 uint32_t keys,
                                                 uint32_t values,
                                                 uint8_t* images) {
    const int key = first + (thread / 32) * 16 + (thread % 32) / 4;
    uint32_t ds[kScores / 2];
    clear(ds);
    float dp[kScores];
    float2 minus_lse[kScores / 4];
    barrier_wait(barriers.full(ring.slot), ring.parity);
    load_lse(minus_lse, ring.slot);
    start_gradients(dp, ring.slot);
    int before = ring.slot;  // stage of block i - 1; for the first block its own, with dS zero
    for (int m = own.begin; m < own.end; ++m) {
      float s[kScores];
      const uint32_t stage = barriers.stage(ring.slot);
      if (Tile::kPingPong) named_sync(1 + warpgroup, 2 * kWarpgroupThreads);
      product_fence();
      accumulate(g.dk, ds, barriers.stage(before));
      transposed_scores(s, keys, held.keys, stage, 0);
      transposed_scores(dp, values, held.values, stage + Tile::kQueryBytes, 1);
      if (Tile::kPingPong) named_arrive(1 + (warpgroup ^ 1), 2 * kWarpgroupThreads);
      // dS is stored here, because this warpgroup waits for its scores anyway.
      if (Tile::kSpill && m > own.begin) spill(ds, block_image(images, batch, m - 1, n));
      Ring<Tile::kStages> next = ring;
      next.advance();
      product_wait<1>();
      pin(s);
      pin(g.dk);
      if (m > own.begin) barrier_arrive(barriers.empty(before));
      if (!contains(whole, m))
        hide_queries(s, row_visibility<Tile>(p.visibility, batch), key,
                     m * Tile::kQueries + 2 * (thread % 4));
      uint32_t probability[kScores / 2];
      probabilities(s, probability, minus_lse);
      pin(probability);
      if (m + 1 < own.end) {
        barrier_wait(barriers.full(next.slot), next.parity);
        load_lse(minus_lse, next.slot);
      }
      product_fence();
      accumulate(g.dv, probability, stage + Tile::kQueryBytes);
      before = ring.slot;
      ring = next;
      if (Tile::kOverlapValues) {
        product_wait<1>();
      } else {
        product_wait<0>();
        pin(g.dv);
      }
      pin(dp);
      score_gradients(s, dp, ds);
      pin(ds);
      if (m + 1 < own.end) start_gradients(dp, ring.slot);
      if (Tile::kOverlapValues) {
        product_wait<0>();
        pin(g.dv);
      }
    }
    if (Tile::kSpill) spill(ds, block_image(images, batch, own.end - 1, n));
    product_fence();
    accumulate(g.dk, ds, barriers.stage(before));
    product_wait<0>();
    pin(g.dk);
    barrier_arrive(barriers.empty(before));
  }

  // Processes a key tile over all heads of the group.
  __device__ __forceinline__ void iterate_queries(const QueueTile& work, int batch, int kv_head) {
    const int n = work.block;
    const int first = n * Tile::kKeys + warpgroup * 64;
    const auto& visibility = row_visibility<Tile>(p.visibility, batch);
    const BlockRange queries = query_blocks(visibility, n * Tile::kKeys,
                                            n * Tile::kKeys + Tile::kKeys - 1, Tile::kQueries);
    BlockRange own = query_blocks(visibility, first, first + 63, Tile::kQueries);
    if (first >= p.visibility.sequence) own.begin = own.end = queries.end;
    const BlockRange whole = whole_query_blocks(visibility, first, first + 63, Tile::kQueries);
    const Ring<Tile::kSlots> key_slot = slots;
    slots.advance();
    const uint32_t keys = barriers.slot(key_slot.slot);
    const uint32_t values = barriers.slot(slots.slot);
    Gradients g;
    clear(g.dk);
    clear(g.dv);
    barrier_wait(barriers.slot_full(key_slot.slot), key_slot.parity);
    barrier_wait(barriers.slot_full(slots.slot), slots.parity);
    Held held;
    if (Tile::kKeysInRegisters) {
      load_rows(held.keys, keys);
      load_rows(held.values, values);
    }
    for (int member = 0; member < p.group; ++member) {
      uint8_t* images = Tile::kSpill ? head_images(p, work.flat_head, member) : nullptr;
      // The votes and barriers show the compiler that the warp does not diverge.
      if (__any_sync(0xffffffff, own.begin > queries.begin)) {
#pragma unroll 1
        for (int m = queries.begin; m < own.begin; ++m)
          skip_block(block_image(images, batch, m, n));
      }
      __syncwarp();
      if (__any_sync(0xffffffff, own.end > own.begin)) {
        iterate_blocks(g, held, own, whole, batch, first, n, keys, values, images);
      }
      __syncwarp();
      if (__any_sync(0xffffffff, own.end < queries.end)) {
#pragma unroll 1
        for (int m = own.end; m < queries.end; ++m) skip_block(block_image(images, batch, m, n));
      }
      __syncwarp();
    }
    send_gradients(work, first, batch, kv_head, key_slot.slot, g.dk, g.dv);
  }

  // Stages both gradients in the place of this warpgroup's keys and values, which no other
  // warpgroup reads.
  __device__ __forceinline__ void send_gradients(const QueueTile& work,
                                                 int first,
                                                 int batch,
                                                 int kv_head,
                                                 int key_slot,
                                                 const float (&dk)[kGradient],
                                                 const float (&dv)[kGradient]) {
    const uint32_t keys = barriers.slot(key_slot) + warpgroup * 64 * kRowBytes;
    const uint32_t values = barriers.slot(slots.slot) + warpgroup * 64 * kRowBytes;
    named_sync(4 + warpgroup, kWarpgroupThreads);  // all four warps are past their last products
    stage_rows<Tile::kKeys>(values, thread, dv, 1.0f);
    stage_rows<Tile::kKeys>(keys, thread, dk, p.scale);
    shared_writes_to_async();
    if (Tile::kSpill) global_to_async();
    named_sync(4 + warpgroup, kWarpgroupThreads);
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
      barrier_arrive(barriers.slot_empty(key_slot), kWarpgroupThreads);  // for the whole warpgroup
      barrier_arrive(barriers.slot_empty(slots.slot), kWarpgroupThreads);
    }
    slots.advance();
  }

  // dq[64 queries, E] += image[64 queries, 64 keys] times the keys of half `half` of a tile of 128.
  __device__ __forceinline__ void multiply_image(float (&dq)[kGradient],
                                                 uint32_t image,
                                                 uint32_t keys,
                                                 int half) {
    const uint64_t a = descriptor(image, 1024, 128, 0);
    const uint64_t b = by_rows(keys, Tile::kKeys);
#pragma unroll
    for (int i = 0; i < Tile::kKeys / 32; ++i) {
      Product<Tile::kHeadSize>::template shared<1, 1>(dq, a + row_step(i),
                                                      b + row_step(4 * half + i), 1);
    }
    product_commit();
  }

  // Processes a query tile: this warpgroup's two query blocks over the key blocks of their head.
  __device__ __forceinline__ void iterate_images(const QueueTile& work, int batch, int kv_head) {
    const int m = Tile::kImages * work.block + 2 * warpgroup;
    const auto layout = row_layout<Tile>(p, batch);
    const BlockRange range = image_range(layout, work.block);
    const BlockRange low = layout.keys_of(m);
    const BlockRange high = layout.keys_of(m + 1);
    const uint32_t own = 2 * warpgroup * Tile::kHalfImageBytes;
    float dq_low[kGradient], dq_high[kGradient];
    clear(dq_low);
    clear(dq_high);
    int slot_before = 0;
    for (int n = range.begin; n < range.end; ++n) {
      barrier_wait(barriers.full(ring.slot), ring.parity);
      const uint32_t keys = barriers.stage(ring.slot);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        barrier_wait(barriers.slot_full(slots.slot), slots.parity);
        const uint32_t image = barriers.slot(slots.slot) + own;
        product_fence();
        if (contains(low, n)) multiply_image(dq_low, image, keys, half);
        if (contains(high, n)) multiply_image(dq_high, image + Tile::kHalfImageBytes, keys, half);
        if (half == 0) {
          slot_before = slots.slot;
          slots.advance();
        }
      }
      product_wait<0>();
      pin(dq_low);
      pin(dq_high);
      barrier_arrive(barriers.empty(ring.slot));
      ring.advance();
      if (n + 1 < range.end) {  // the last two slots stage the result
        barrier_arrive(barriers.slot_empty(slot_before));
        barrier_arrive(barriers.slot_empty(slots.slot));
        slots.advance();
      }
    }
    send_queries(work, m * SpillLayout::kQueries, batch, kv_head, slot_before, dq_low, dq_high);
  }

  // Stages dQ in the place of this warpgroup's images in the last two slots, 64 columns in each.
  __device__ __forceinline__ void send_queries(const QueueTile& work,
                                               int first,
                                               int batch,
                                               int kv_head,
                                               int slot_before,
                                               const float (&dq_low)[kGradient],
                                               const float (&dq_high)[kGradient]) {
    const uint32_t own = 2 * warpgroup * Tile::kHalfImageBytes;
    const uint32_t rows[2] = {barriers.slot(slot_before) + own, barriers.slot(slots.slot) + own};
    named_sync(4 + warpgroup, kWarpgroupThreads);
#pragma unroll
    for (int chunk = 0; chunk < Tile::kHeadSize / kChunkColumns; ++chunk) {
      stage_chunk(rows[chunk], thread, dq_low + 32 * chunk, p.scale, p.scale);
      stage_chunk(rows[chunk] + Tile::kHalfImageBytes, thread, dq_high + 32 * chunk, p.scale,
                  p.scale);
    }
    shared_writes_to_async();
    named_sync(4 + warpgroup, kWarpgroupThreads);
    if (thread == 0) {
      counter_release(p.spill.taken + work.flat_head);
      const int head = kv_head * p.group + work.member;
#pragma unroll
      for (int chunk = 0; chunk < Tile::kHeadSize / kChunkColumns; ++chunk) {
        if (first < p.visibility.sequence) copy_out(&p.dq, rows[chunk], first, chunk, head, batch);
        if (first + 64 < p.visibility.sequence) {
          copy_out(&p.dq, rows[chunk] + Tile::kHalfImageBytes, first + 64, chunk, head, batch);
        }
      }
      copy_out_commit();
      copy_out_wait_read();
      barrier_arrive(barriers.slot_empty(slot_before), kWarpgroupThreads);
      barrier_arrive(barriers.slot_empty(slots.slot), kWarpgroupThreads);
    }
    slots.advance();
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
  grid_wait();
  // The query pass depends on the grids before this one, not on this one.
  if (threadIdx.x == 0) grid_launch_dependents();
  const int role = __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / kWarpgroupThreads, 0);
  if (role == 0) {
    give_registers<Tile::kProducerRegisters>();
    if (threadIdx.x < 32) Producer<Tile>{p, barriers, static_cast<int>(threadIdx.x)}.run();
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
      if (index >= work_count<Tile>(p)) break;
      const QueueTile work = locate<Tile>(p, index);
      const int batch = work.flat_head / p.kv_heads;
      const int kv_head = work.flat_head - batch * p.kv_heads;
      if (Tile::kSpill && __any_sync(0xffffffff, work.is_query)) {
        consumer.iterate_images(work, batch, kv_head);
      } else {
        consumer.iterate_queries(work, batch, kv_head);
      }
    }
  }
#else
  __trap();
#endif
}

// kSectionTiles: key tiles of a section, enough to mix their lengths. The other two are the numbers
// of tiles between a head's key tiles and its query tiles, and between those and the key tiles that
// overwrite its images: more than are taken while the longest tile runs.
constexpr int kSectionTiles = 66;
constexpr int kLagTiles = 300;
constexpr int kReuseTiles = 150;

SpillOrder spill_order(const AttentionExtents& extents, int ring) {
  const int group = static_cast<int>(extents.heads / extents.kv_heads);
  const int sequence = static_cast<int>(extents.sequence);
  SpillOrder order;
  order.heads = static_cast<int>(extents.batch * extents.kv_heads);
  order.key_tiles = ceil_div(sequence, SpillLayout::kKeys);
  order.query_tiles = group * ceil_div(sequence, 4 * SpillLayout::kQueries);
  order.section = kSectionTiles / order.key_tiles < 1 ? 1 : kSectionTiles / order.key_tiles;
  const int section_tiles = order.section * (order.key_tiles + order.query_tiles);
  order.lag = ceil_div(kLagTiles, section_tiles);
  order.ring = (order.lag + 1 + ceil_div(kReuseTiles, section_tiles)) * order.section;
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
  const bool mapped =
      encode_tokens(&p.q, operands.q, extents, extents.heads, Tile::kQueries, kAllChunks) &&
      encode_tokens(&p.d_o, operands.d_o, extents, extents.heads, Tile::kQueries, kAllChunks) &&
      encode_tokens(&p.k, operands.k, extents, extents.kv_heads, Tile::kKeys, kAllChunks) &&
      encode_tokens(&p.v, operands.v, extents, extents.kv_heads, Tile::kKeys, kAllChunks) &&
      encode_tokens(&p.dq, operands.dq, extents, extents.heads, 64, kOneChunk) &&
      encode_tokens(&p.dk, operands.dk, extents, extents.kv_heads, 64, kOneChunk) &&
      encode_tokens(&p.dv, operands.dv, extents, extents.kv_heads, 64, kOneChunk);
  if (!mapped) return cudaErrorInvalidValue;
  p.statistics = call.statistics;
  p.spill = spill;
  p.visibility = visibility_with_documents(extents);
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
  return launch_kernel(flash_attention_backward_keys_kernel<Tile>, blocks, Tile::kThreads,
                       Tile::kSharedBytes, p, call.stream, kAfterTrigger);
}

template <class Tile>
cudaError_t launch_in_rows(const HopperBackward& call, const SpillMemory& spill, int* next_tile) {
  return call.extents.positions != nullptr ? launch<WithDocuments<Tile>>(call, spill, next_tile)
                                           : launch<Tile>(call, spill, next_tile);
}

}  // namespace

int backward_spill_ring(const AttentionExtents& extents) { return spill_order(extents, 0).ring; }

cudaError_t launch_backward_keys_hopper(const HopperBackward& call,
                                        const SpillMemory& spill,
                                        int* next_tile) {
  if (call.extents.head_size == 64) {
    return spill.images != nullptr
               ? launch_in_rows<KeysTile<64, 2, 3, true>>(call, spill, next_tile)
               : launch_in_rows<KeysTile<64, 2, 4, false>>(call, spill, next_tile);
  }
  return spill.images != nullptr
             ? launch_in_rows<KeysTile<128, 2, 3, true>>(call, spill, next_tile)
             : launch_in_rows<KeysTile<128, 2, 3, false>>(call, spill, next_tile);
}

// A warpgroup visits the query blocks that attend to its own 64 keys.
int64_t backward_keys_hopper_pairs(const AttentionExtents& extents) {
  const Visibility visibility = visibility_of(extents);
  int64_t blocks = 0;
  for (int first = 0; first < visibility.sequence; first += 64) {
    const BlockRange queries = query_blocks(visibility, first, first + 63, 64);
    blocks += queries.end - queries.begin;
  }
  return blocks * 64 * 64 * extents.batch * extents.heads;
}

}  // namespace ridge::backends::cuda
