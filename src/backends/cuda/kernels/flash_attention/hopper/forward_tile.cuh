// SPDX-License-Identifier: Apache-2.0
// Flash attention forward for Hopper: the shape of a tile, its shared memory and barriers, and the
// producers that load it. The consumers and the launch are in forward.cu.
#pragma once

#include "backends/cuda/kernels/flash_attention/hopper/accumulator.cuh"

namespace ridge::backends::cuda::hopper {

struct ForwardArguments {
  CUtensorMap q, k, v, o;
  float* lse;      // [N, H]
  int* next_tile;  // zero at launch; null if tiles are assigned without a queue
  TileOrder order;
  DocumentVisibility visibility;
  int heads;
  int group;  // query heads per key head
  int shift;  // tile_shift
  float scale_log2;
};

template <int kHeadSizeT, int kKeysT, int kWarpgroupsT, int kStagesT, int kOutputChunksT>
struct ForwardTile {
  static constexpr bool kDocuments = false;
  static constexpr int kHeadSize = kHeadSizeT;
  static constexpr int kKeys = kKeysT;
  static constexpr int kWarpgroups = kWarpgroupsT;
  static constexpr int kStages = kStagesT;
  // The number of chunks of 64 columns of the output that are staged at a time; 0: the output is
  // staged in the place of the queries, if shared memory has no other room for it.
  static constexpr bool kOutputOverQuery = kOutputChunksT == 0;
  static constexpr int kOutputChunks = kOutputOverQuery ? kHeadSize / 64 : kOutputChunksT;
  static constexpr int kQueries = 64 * kWarpgroups;
  static constexpr int kThreads = kWarpgroupThreads * (1 + kWarpgroups);
  static constexpr int kBlocksPerSm = kWarpgroups == 1 ? 2 : 1;
  // 128 x (producer + consumers) registers per block; the blocks of a multiprocessor share 64 Ki.
  static constexpr int kProducerRegisters = kWarpgroups == 3 ? 32 : (kHeadSize == 256 ? 24 : 40);
  static constexpr int kConsumerRegisters =
      kWarpgroups == 3 ? 160 : (kHeadSize == 256 ? 240 : (kWarpgroups == 2 ? 232 : 216));
  static constexpr int kOwnQueryBytes = 64 * kHeadSize * 2;  // a warpgroup has so many
  static constexpr int kQueryBytes = kWarpgroups * kOwnQueryBytes;
  static constexpr int kKeyBytes = kKeys * kHeadSize * 2;
  static constexpr int kKeyOffset = kQueryBytes;
  static constexpr int kValueOffset = kKeyOffset + kStages * kKeyBytes;
  static constexpr int kOutputOffset = kOutputOverQuery ? 0 : kValueOffset + kStages * kKeyBytes;
  static constexpr int kOwnOutputBytes = kOutputChunks * 64 * kRowBytes;  // a warpgroup has so many
  static constexpr int kBarrierOffset =
      kValueOffset + kStages * kKeyBytes + (kOutputOverQuery ? 0 : kWarpgroups * kOwnOutputBytes);
  static constexpr int kBarrierBytes = 256;
  static constexpr int kSharedBytes = kBarrierOffset + kBarrierBytes;
  // Two warpgroups use the tensor cores in ping-pong; three fill each other's gaps without that.
  static constexpr bool kPingPong = kWarpgroups == 2;
  // Whether to wait for the output product before the exponentials, which then interleave with
  // packing. At E 64 the products are as short as the exponentials, and running them concurrently
  // is faster.
  static constexpr bool kEarlyWait = kHeadSize != 64;
  static_assert(kSharedBytes <= 232448);
};

// The barriers, eight bytes each from Tile::kBarrierOffset on.
template <class Tile>
struct ForwardBarriers {
  static constexpr int kQ = Tile::kWarpgroups;
  static constexpr int kK = 2 * kQ + 6;
  uint32_t base;
  __device__ __forceinline__ uint32_t at(int index) const {
    return base + Tile::kBarrierOffset + 8 * index;
  }
  __device__ __forceinline__ uint32_t q_full(int warpgroup) const { return at(warpgroup); }
  __device__ __forceinline__ uint32_t q_empty(int warpgroup) const { return at(kQ + warpgroup); }
  __device__ __forceinline__ uint32_t tile_full(int slot) const { return at(2 * kQ + slot); }
  __device__ __forceinline__ uint32_t tile_empty(int slot) const { return at(2 * kQ + 2 + slot); }
  // A word with the index of the tile.
  __device__ __forceinline__ uint32_t tile(int slot) const { return at(2 * kQ + 4 + slot); }
  __device__ __forceinline__ uint32_t k_full(int slot) const { return at(kK + slot); }
  __device__ __forceinline__ uint32_t k_empty(int slot) const {
    return at(kK + Tile::kStages + slot);
  }
  __device__ __forceinline__ uint32_t v_full(int slot) const {
    return at(kK + 2 * Tile::kStages + slot);
  }
  __device__ __forceinline__ uint32_t v_empty(int slot) const {
    return at(kK + 3 * Tile::kStages + slot);
  }
  static_assert(8 * (kK + 4 * Tile::kStages) <= Tile::kBarrierBytes);

  __device__ __forceinline__ void init() const {
    constexpr int kWarps = 4 * Tile::kWarpgroups;
    for (int i = 0; i < Tile::kWarpgroups; ++i) {
      barrier_init(q_full(i), 1);
      barrier_init(q_empty(i), Tile::kOutputOverQuery ? 1 : 4);
    }
    for (int i = 0; i < 2; ++i) {
      barrier_init(tile_full(i), 1);
      barrier_init(tile_empty(i), kWarps + 1);  // consumers and the queries' producer
    }
    for (int i = 0; i < Tile::kStages; ++i) {
      barrier_init(k_full(i), 1);
      barrier_init(k_empty(i), kWarps);
      barrier_init(v_full(i), 1);
      barrier_init(v_empty(i), kWarps);
    }
    barrier_init_fence();
  }
};

template <class Tile>
__device__ __forceinline__ BlockRange tile_keys(const ForwardArguments& p, int batch, int block) {
  const int first = block * Tile::kQueries - p.shift;
  return key_blocks(row_visibility<Tile>(p.visibility, batch), first < 0 ? 0 : first,
                    first + Tile::kQueries - 1, Tile::kKeys);
}

// Run by one thread: publishes the tile indices, and loads keys and values block by block from the
// last.
template <class Tile>
__device__ __forceinline__ void produce(const ForwardArguments& p,
                                        const ForwardBarriers<Tile>& barriers) {
  prefetch_map(&p.k);
  prefetch_map(&p.v);
  const uint32_t shared = barriers.base;
  Ring<2> tile_ring;
  Ring<Tile::kStages> key_ring, value_ring;
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

    auto fetch_keys = [&](int n) {
      const uint32_t full = barriers.k_full(key_ring.slot);
      barrier_wait(barriers.k_empty(key_ring.slot), key_ring.parity ^ 1);
      barrier_expect(full, Tile::kKeyBytes);
      copy_in(shared + Tile::kKeyOffset + key_ring.slot * Tile::kKeyBytes, &p.k, full,
              n * Tile::kKeys, kv_head, batch);
      key_ring.advance();
    };
    auto fetch_values = [&](int n) {
      const uint32_t full = barriers.v_full(value_ring.slot);
      barrier_wait(barriers.v_empty(value_ring.slot), value_ring.parity ^ 1);
      barrier_expect(full, Tile::kKeyBytes);
      copy_in(shared + Tile::kValueOffset + value_ring.slot * Tile::kKeyBytes, &p.v, full,
              n * Tile::kKeys, kv_head, batch);
      value_ring.advance();
    };
    fetch_keys(keys.end - 1);
    for (int n = keys.end - 2; n >= keys.begin; --n) {
      fetch_keys(n);
      fetch_values(n + 1);
    }
    fetch_values(keys.begin);
    index = p.next_tile != nullptr ? static_cast<int>(gridDim.x) + atomicAdd(p.next_tile, 1)
                                   : index + static_cast<int>(gridDim.x);
  }
}

// Run by one thread of another warp: loads each warpgroup's 64 queries as soon as that warpgroup
// has finished the previous ones, so that none waits for the slowest.
template <class Tile>
__device__ __forceinline__ void produce_queries(const ForwardArguments& p,
                                                const ForwardBarriers<Tile>& barriers) {
  prefetch_map(&p.q);
  Ring<2> tile_ring;
  uint32_t parities = 0;  // one bit per warpgroup
  while (true) {
    barrier_wait(barriers.tile_full(tile_ring.slot), tile_ring.parity);
    const int index = load_shared_int(barriers.tile(tile_ring.slot));
    barrier_arrive(barriers.tile_empty(tile_ring.slot));
    tile_ring.advance();
    if (index >= p.order.tiles()) break;
    int flat_head, block;
    p.order.locate(index, &flat_head, &block);
    const int batch = flat_head / p.heads;
    const int head = flat_head - batch * p.heads;
#pragma unroll 1
    for (int w = 0; w < Tile::kWarpgroups; ++w) {
      const int first = block * Tile::kQueries + 64 * w - p.shift;
      if (first < 0) continue;
      barrier_wait(barriers.q_empty(w), ((parities >> w) & 1) ^ 1);
      parities ^= 1u << w;
      barrier_expect(barriers.q_full(w), Tile::kOwnQueryBytes);
      copy_in(barriers.base + w * Tile::kOwnQueryBytes, &p.q, barriers.q_full(w), first, head,
              batch);
    }
  }
}

}  // namespace ridge::backends::cuda::hopper
