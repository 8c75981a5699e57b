// SPDX-License-Identifier: Apache-2.0
// Flash attention backward for Hopper, key tiles and the query tiles that share their launch:
// shapes, shared memory and barriers, the meaning of an index in the queue, and the producer. The
// consumers and the launch are in backward_keys.cu.
#pragma once

#include "backends/cuda/kernels/flash_attention/hopper/backward.cuh"

namespace ridge::backends::cuda::backward_keys {

using namespace hopper;

struct KeysArguments {
  CUtensorMap q, k, v, d_o, dq, dk, dv;
  RowStatistics statistics;
  SpillMemory spill;
  int* next_tile;
  TileOrder order;         // without a spill
  SpillOrder spill_order;  // with a spill
  DocumentVisibility visibility;
  int kv_heads;
  int group;
  float scale;
  float scale_log2;
};

template <int kHeadSizeT, int kWarpgroupsT, int kStagesT, bool kSpillT>
struct KeysTile {
  static constexpr bool kDocuments = false;
  static constexpr int kHeadSize = kHeadSizeT;
  static constexpr int kWarpgroups = kWarpgroupsT;
  static constexpr int kStages = kStagesT;
  static constexpr bool kSpill = kSpillT;
  static constexpr bool kPingPong = kWarpgroups == 2;
  // dS is computed while dV is, if the registers hold both operands. For E 128 they do not: ptxas
  // would serialize the products.
  static constexpr bool kOverlapValues = kHeadSize == 64;
  // Keys and values as register operands of the score products: halves their shared-memory reads.
  static constexpr bool kKeysInRegisters = kHeadSize == 64 && kWarpgroups == 2;
  static constexpr int kKeys = 64 * kWarpgroups;
  static_assert(!kSpill || kKeys == SpillLayout::kKeys);
  static constexpr int kQueries = 64;
  static constexpr int kThreads = kWarpgroupThreads * (1 + kWarpgroups);
  static constexpr int kWarps = 4 * kWarpgroups;  // consumer warps
  static constexpr int kProducerRegisters = kWarpgroups == 2 ? 24 : 32;
  static constexpr int kConsumerRegisters = kWarpgroups == 2 ? 240 : 160;
  static constexpr int kKeyBytes = kKeys * kHeadSize * 2;
  static constexpr int kQueryBytes = kQueries * kHeadSize * 2;
  static constexpr int kStatisticBytes = RowStatistics::kLseBytes + RowStatistics::kDeltaBytes;
  // A slot holds a tile's keys, or its values, or for 64 keys the images of four query blocks. With
  // four slots the next tile's keys and values can be loaded while this tile's gradients are
  // stored. Images come from device memory and benefit from more slots.
  static constexpr int kSlots = kSpill && kHeadSize == 64 ? 5 : 4;
  static constexpr int kImages = 4;
  static constexpr int kImageBytes = SpillLayout::kImageBytes;
  static constexpr int kHalfImageBytes = kImageBytes / 2;
  static constexpr int kSlotBytes =
      kSpill && kImages * kHalfImageBytes > kKeyBytes ? kImages* kHalfImageBytes : kKeyBytes;
  // A stage holds 64 queries of Q and dO, or 128 keys of K.
  static constexpr int kStageOffset = kSlots * kSlotBytes;
  static constexpr int kStageBytes = 2 * kQueryBytes;
  static constexpr int kStatisticsOffset = kStageOffset + kStages * kStageBytes;
  static constexpr int kBarrierOffset = kStatisticsOffset + kStages * kStatisticBytes;
  static constexpr int kBarrierBytes = 256;
  static constexpr int kSharedBytes = kBarrierOffset + kBarrierBytes;
  static_assert(kSharedBytes <= 232448);
};

template <class Tile>
struct KeysBarriers {
  uint32_t base;
  __device__ __forceinline__ uint32_t at(int index) const {
    return base + Tile::kBarrierOffset + 8 * index;
  }
  __device__ __forceinline__ uint32_t tile_full(int slot) const { return at(slot); }
  __device__ __forceinline__ uint32_t tile_empty(int slot) const { return at(2 + slot); }
  __device__ __forceinline__ uint32_t tile(int slot) const { return at(4 + slot); }
  __device__ __forceinline__ uint32_t slot_full(int slot) const { return at(6 + slot); }
  __device__ __forceinline__ uint32_t slot_empty(int slot) const {
    return at(6 + Tile::kSlots + slot);
  }
  __device__ __forceinline__ uint32_t full(int slot) const {
    return at(6 + 2 * Tile::kSlots + slot);
  }
  __device__ __forceinline__ uint32_t empty(int slot) const {
    return at(6 + 2 * Tile::kSlots + Tile::kStages + slot);
  }
  static_assert(8 * (6 + 2 * Tile::kSlots + 2 * Tile::kStages) <= Tile::kBarrierBytes);

  __device__ __forceinline__ uint32_t slot(int slot) const {
    return base + slot * Tile::kSlotBytes;
  }
  __device__ __forceinline__ uint32_t stage(int slot) const {
    return base + Tile::kStageOffset + slot * Tile::kStageBytes;
  }
  __device__ __forceinline__ uint32_t lse(int slot) const {
    return base + Tile::kStatisticsOffset + slot * Tile::kStatisticBytes;
  }
  __device__ __forceinline__ uint32_t delta(int slot) const {
    return lse(slot) + RowStatistics::kLseBytes;
  }

  __device__ __forceinline__ void init() const {
    for (int i = 0; i < 2; ++i) {
      barrier_init(tile_full(i), 1);
      barrier_init(tile_empty(i), 32 * Tile::kWarps);
    }
    for (int i = 0; i < Tile::kSlots; ++i) {
      barrier_init(slot_full(i), 1);
      barrier_init(slot_empty(i), 32 * Tile::kWarps);
    }
    for (int i = 0; i < Tile::kStages; ++i) {
      barrier_init(full(i), 1);
      barrier_init(empty(i), 32 * Tile::kWarps);
    }
    barrier_init_fence();
  }
};

template <class Tile>
__device__ __forceinline__ auto row_layout(const KeysArguments& p, int batch) {
  return SpillLayoutOf<std::remove_cvref_t<decltype(row_visibility<Tile>(p.visibility, batch))>>{
      row_visibility<Tile>(p.visibility, batch)};
}

// The tile that an index in the queue stands for.
struct QueueTile {
  bool is_query;
  int flat_head;  // b K + key head
  int block;      // block of 128 keys, or of 256 queries
  int member;     // for a query tile, the query head within the group
};

template <class Tile>
__device__ __forceinline__ int work_count(const KeysArguments& p) {
  return Tile::kSpill ? p.spill_order.tiles() : p.order.tiles();
}

template <class Tile>
__device__ __forceinline__ QueueTile locate(const KeysArguments& p, int index) {
  QueueTile work{};
  if (Tile::kSpill) {
    const SpillOrder::Tile tile = p.spill_order.locate(index);
    work.is_query = tile.is_query;
    work.flat_head = tile.head;
    work.block = tile.rank;
    if (tile.is_query) {
      const int round = tile.rank / p.group;
      work.member = tile.rank - round * p.group;
      work.block = p.spill_order.query_tiles / p.group - 1 - round;
    }
  } else {
    p.order.locate(index, &work.flat_head, &work.block);
  }
  return work;
}

// The key blocks of a query tile: the ranges of its query blocks overlap, and their bounds do not
// decrease.
template <class Layout>
__device__ __forceinline__ BlockRange image_range(const Layout& layout, int block) {
  BlockRange range = layout.keys_of(4 * block);
  for (int i = 1; i < 4; ++i) {
    const BlockRange next = layout.keys_of(4 * block + i);
    if (next.end > range.end) range.end = next.end;
  }
  return range;
}

__device__ __forceinline__ uint8_t* head_images(const KeysArguments& p, int flat_head, int member) {
  const int64_t head = static_cast<int64_t>(flat_head % p.spill.ring) * p.group + member;
  return p.spill.images + head * SpillLayout{p.visibility}.images() * SpillLayout::kImageBytes;
}

// Runs in one warp. Its first lane copies; for images the first four lanes do, each for one query
// block.
template <class Tile>
struct Producer {
  const KeysArguments& p;
  KeysBarriers<Tile> barriers;
  int lane;
  Ring<Tile::kSlots> slots{};
  Ring<Tile::kStages> ring{};

  __device__ __forceinline__ uint32_t claim_slot(uint32_t bytes) {
    barrier_wait(barriers.slot_empty(slots.slot), slots.parity ^ 1);
    const uint32_t full = barriers.slot_full(slots.slot);
    if (lane == 0) barrier_expect(full, bytes);
    __syncwarp();
    return full;
  }
  __device__ __forceinline__ uint32_t claim_stage(uint32_t bytes) {
    barrier_wait(barriers.empty(ring.slot), ring.parity ^ 1);
    const uint32_t full = barriers.full(ring.slot);
    if (lane == 0) barrier_expect(full, bytes);
    __syncwarp();
    return full;
  }

  __device__ __forceinline__ void fetch_tile(const CUtensorMap* map,
                                             int first,
                                             int kv_head,
                                             int batch) {
    const uint32_t full = claim_slot(Tile::kKeyBytes);
    if (lane == 0) copy_in(barriers.slot(slots.slot), map, full, first, kv_head, batch);
    slots.advance();
  }

  __device__ __forceinline__ void fetch_keys(const QueueTile& work, int batch, int kv_head) {
    if (Tile::kSpill && work.flat_head >= p.spill.ring) {
      counter_acquire(p.spill.taken + work.flat_head - p.spill.ring, 2 * p.spill_order.query_tiles);
    }
    const int first = work.block * Tile::kKeys;
    const BlockRange queries = query_blocks(row_visibility<Tile>(p.visibility, batch), first,
                                            first + Tile::kKeys - 1, Tile::kQueries);
    fetch_tile(&p.k, first, kv_head, batch);
    fetch_tile(&p.v, first, kv_head, batch);
#pragma unroll 1
    for (int g = 0; g < p.group; ++g) {
      const int head = kv_head * p.group + g;
      const int64_t rows = static_cast<int64_t>(work.flat_head * p.group + g) * p.statistics.padded;
#pragma unroll 1
      for (int m = queries.begin; m < queries.end; ++m) {
        const uint32_t full = claim_stage(Tile::kStageBytes + Tile::kStatisticBytes);
        if (lane == 0) {
          const uint32_t stage = barriers.stage(ring.slot);
          const int64_t row = rows + m * Tile::kQueries;
          copy_in(stage, &p.q, full, m * Tile::kQueries, head, batch);
          copy_in_flat(barriers.lse(ring.slot), p.statistics.minus_lse + row,
                       RowStatistics::kLseBytes, full);
          copy_in(stage + Tile::kQueryBytes, &p.d_o, full, m * Tile::kQueries, head, batch);
          copy_in_flat(barriers.delta(ring.slot),
                       p.statistics.minus_delta + RowStatistics::kDeltaCopies * row,
                       RowStatistics::kDeltaBytes, full);
        }
        ring.advance();
      }
    }
  }

  __device__ __forceinline__ void fetch_images(const QueueTile& work, int batch, int kv_head) {
    counter_acquire(p.spill.stored + work.flat_head, 2 * p.spill_order.key_tiles);
    global_to_async();
    const auto layout = row_layout<Tile>(p, batch);
    const BlockRange range = image_range(layout, work.block);
    const int m = Tile::kImages * work.block + lane;
    BlockRange own{};
    if (lane < Tile::kImages) own = layout.keys_of(m);
    // The images of a query block are contiguous.
    const uint8_t* next = head_images(p, work.flat_head, work.member);
    if (own.end > own.begin)
      next += static_cast<int64_t>(layout.index(m, own.begin)) * Tile::kImageBytes;
#pragma unroll 1
    for (int n = range.begin; n < range.end; ++n) {
      const bool has_image = contains(own, n);
      const int count = __popc(__ballot_sync(0xffffffff, has_image));
#pragma unroll 1
      for (int half = 0; half < 2; ++half) {
        const uint32_t images_full = claim_slot(count * Tile::kHalfImageBytes);
        if (has_image) {
          copy_in_flat(barriers.slot(slots.slot) + lane * Tile::kHalfImageBytes, next,
                       Tile::kHalfImageBytes, images_full);
          next += Tile::kHalfImageBytes;
        }
        slots.advance();
        if (half == 0) {
          const uint32_t full = claim_stage(Tile::kKeyBytes);
          if (lane == 0)
            copy_in(barriers.stage(ring.slot), &p.k, full, n * Tile::kKeys, kv_head, batch);
          ring.advance();
        }
      }
    }
  }

  __device__ __forceinline__ void run() {
    Ring<2> tile_ring;
    int index = blockIdx.x;
    while (true) {
      barrier_wait(barriers.tile_empty(tile_ring.slot), tile_ring.parity ^ 1);
      if (lane == 0) {
        store_shared_int(barriers.tile(tile_ring.slot), index);
        barrier_arrive(barriers.tile_full(tile_ring.slot));
      }
      tile_ring.advance();
      if (index >= work_count<Tile>(p)) break;
      const QueueTile work = locate<Tile>(p, index);
      const int batch = work.flat_head / p.kv_heads;
      const int kv_head = work.flat_head - batch * p.kv_heads;
      if (Tile::kSpill && work.is_query) {
        fetch_images(work, batch, kv_head);
      } else {
        fetch_keys(work, batch, kv_head);
      }
      index += gridDim.x;
      if (p.next_tile != nullptr) {
        if (lane == 0) index = gridDim.x + atomicAdd(p.next_tile, 1);
        index = __shfl_sync(0xffffffff, index, 0);
      }
    }
  }
};

}  // namespace ridge::backends::cuda::backward_keys
