// SPDX-License-Identifier: Apache-2.0
// Flash attention backward for Hopper, the query pass that reads dS: dQ = scale dS K over the images that the key pass
// left (bf16, head sizes 64 and 128). It forms no score.
//
// A block owns 256 queries, 64 a consumer warpgroup; a key tile serves all four. An image is 64 queries x 128 keys in
// core matrices of 8 keys x 8 queries, which the tensor cores take as a transposed left operand.
//
// Bound: bytes. 2 a stored pair from device memory, and per 256 x 128 pairs one key tile from L2; the 2 E FLOPs a pair
// need less time.
#include "backends/cuda/kernels/flash_attention_backward_hopper.cuh"

namespace ridge::backends::cuda {
namespace {

using namespace hopper;

struct SpilledArguments {
  CUtensorMap k, dq;
  const uint8_t* spill;
  SpillLayout layout;
  int* next_tile;
  TileOrder order;  // over query heads [first_head, first_head + order.heads)
  int first_head;
  int heads;
  int group;
  float scale;
};

template <int kHeadSizeT>
struct SpilledTile {
  static constexpr int kHeadSize = kHeadSizeT;
  static constexpr int kWarpgroups = 4;
  static constexpr int kThreads = 640;
  static constexpr int kStages = 2;
  static constexpr int kKeys = SpillLayout::kKeys;
  static constexpr int kKeyBytes = kKeys * kHeadSize * 2;
  static constexpr int kImageBytes = SpillLayout::kImageBytes;
  static constexpr int kStageBytes = kWarpgroups * kImageBytes + kKeyBytes;
  static constexpr int kOutputOffset = kStages * kStageBytes;
  static constexpr int kOutputBytes = 64 * kRowBytes;  // one chunk of a warpgroup's rows
  static constexpr int kBarrierOffset = kOutputOffset + kWarpgroups * kOutputBytes;
  static constexpr int kSharedBytes = kBarrierOffset + 256;
  static_assert(kSharedBytes <= 232448);
};

template <class Tile>
struct SpilledBarriers {
  uint64_t full[Tile::kStages], empty[Tile::kStages];
  TileSlots slots;
};

// Key blocks of a query block; none past the end of the sequence.
__device__ __forceinline__ BlockRange image_keys(const SpillLayout& layout, int m) {
  if (m * SpillLayout::kQueries >= layout.visibility.sequence) return BlockRange{0, 0};
  return layout.keys_of(m);
}

// Key blocks of a tile: its query blocks' ranges overlap and only move right.
template <class Tile>
__device__ __forceinline__ BlockRange tile_keys(const SpillLayout& layout, int block) {
  BlockRange range = image_keys(layout, block * Tile::kWarpgroups);
  for (int w = 1; w < Tile::kWarpgroups; ++w) {
    const BlockRange next = image_keys(layout, block * Tile::kWarpgroups + w);
    if (next.end > range.end) range.end = next.end;
  }
  return range;
}

template <class Tile>
__device__ __forceinline__ void produce(const SpilledArguments& p,
                                        uint8_t* shared,
                                        SpilledBarriers<Tile>& barriers) {
  Ring<2> turn;
  Ring<Tile::kStages> ring;
  int index = blockIdx.x;
  while (true) {
    barrier_wait(&barriers.slots.empty[turn.slot], turn.parity ^ 1);
    barriers.slots.tile[turn.slot] = index;
    barrier_arrive(&barriers.slots.full[turn.slot]);
    turn.advance();
    if (index >= p.order.tiles()) break;
    int local_head, block;
    p.order.locate(index, &local_head, &block);
    const int flat_head = local_head + p.first_head;
    const int batch = flat_head / p.heads;
    const int kv_head = (flat_head - batch * p.heads) / p.group;
    const BlockRange keys = tile_keys<Tile>(p.layout, block);
    for (int n = keys.begin; n < keys.end; ++n) {
      barrier_wait(&barriers.empty[ring.slot], ring.parity ^ 1);
      uint64_t* full = &barriers.full[ring.slot];
      uint8_t* stage = shared + ring.slot * Tile::kStageBytes;
      int images = 0;
      for (int w = 0; w < Tile::kWarpgroups; ++w) {
        images += contains(image_keys(p.layout, block * Tile::kWarpgroups + w), n);
      }
      barrier_expect(full, Tile::kKeyBytes + images * Tile::kImageBytes);
      copy_in(stage + Tile::kWarpgroups * Tile::kImageBytes, &p.k, full, n * Tile::kKeys, kv_head, batch);
      for (int w = 0; w < Tile::kWarpgroups; ++w) {
        const int m = block * Tile::kWarpgroups + w;
        if (!contains(image_keys(p.layout, m), n)) continue;
        const int64_t image = local_head * p.layout.images() + p.layout.index(m, n);
        copy_in_flat(stage + w * Tile::kImageBytes, p.spill + image * Tile::kImageBytes, Tile::kImageBytes, full);
      }
      ring.advance();
    }
    index = p.next_tile != nullptr ? static_cast<int>(gridDim.x) + atomicAdd(p.next_tile, 1)
                                   : index + static_cast<int>(gridDim.x);
  }
}

template <class Tile>
struct Consumer {
  const SpilledArguments& p;
  uint8_t* shared;
  SpilledBarriers<Tile>& barriers;
  int warpgroup;
  int thread;
  Ring<Tile::kStages> ring{};

  __device__ __forceinline__ void walk(int local_head, int block) {
    const int m = block * Tile::kWarpgroups + warpgroup;
    const BlockRange keys = tile_keys<Tile>(p.layout, block);
    const BlockRange own = image_keys(p.layout, m);
    float dq[Tile::kHeadSize / 2];
    clear(dq);
    for (int n = keys.begin; n < keys.end; ++n) {
      barrier_wait(&barriers.full[ring.slot], ring.parity);
      if (contains(own, n)) {
        const uint8_t* stage = shared + ring.slot * Tile::kStageBytes;
        const uint64_t a = descriptor(shared_address(stage + warpgroup * Tile::kImageBytes), 1024, 128, 0);
        const uint64_t b = by_rows(stage + Tile::kWarpgroups * Tile::kImageBytes, Tile::kKeys);
        pin(dq);
        product_fence();
#pragma unroll
        for (int i = 0; i < Tile::kKeys / 16; ++i) {
          Product<Tile::kHeadSize>::template shared<1, 1>(dq, a + row_step(i), b + row_step(i), 1);
        }
        product_commit();
        product_wait<0>();
        pin(dq);
      }
      if (thread % 32 == 0) barrier_arrive(&barriers.empty[ring.slot]);
      ring.advance();
    }
    const int flat_head = local_head + p.first_head;
    const int batch = flat_head / p.heads;
    send(m * SpillLayout::kQueries, flat_head - batch * p.heads, batch, dq);
  }

  // Chunk by chunk through this warpgroup's staging rows.
  __device__ __forceinline__ void send(int first, int head, int batch, const float (&dq)[Tile::kHeadSize / 2]) {
    uint8_t* rows = shared + Tile::kOutputOffset + warpgroup * Tile::kOutputBytes;
#pragma unroll
    for (int chunk = 0; chunk < Tile::kHeadSize / kChunkColumns; ++chunk) {
      float part[32];
#pragma unroll
      for (int i = 0; i < 32; ++i) part[i] = dq[32 * chunk + i];
      if (thread == 0) copy_out_wait_read();
      named_sync(1 + warpgroup, kWarpgroupThreads);
      stage_rows<64>(rows, thread, part, p.scale);
      shared_writes_to_async();
      named_sync(1 + warpgroup, kWarpgroupThreads);
      if (thread == 0 && first < p.layout.visibility.sequence) {
        copy_out(&p.dq, rows, first, chunk, head, batch);
        copy_out_commit();
      }
    }
  }
};

template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    flash_attention_backward_spilled_kernel(const __grid_constant__ SpilledArguments p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) uint8_t shared[];
  auto& barriers = *reinterpret_cast<SpilledBarriers<Tile>*>(shared + Tile::kBarrierOffset);
  static_assert(sizeof(barriers) <= 256);
  constexpr int kWarps = 4 * Tile::kWarpgroups;
  if (threadIdx.x == 0) {
    for (int i = 0; i < Tile::kStages; ++i) {
      barrier_init(&barriers.full[i], 1);
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
    give_registers<32>();
    if (threadIdx.x == 0) produce<Tile>(p, shared, barriers);
  } else {
    take_registers<112>();
    Consumer<Tile> consumer{p, shared, barriers, role - 1, static_cast<int>(threadIdx.x) % kWarpgroupThreads};
    Ring<2> turn;
    while (true) {
      barrier_wait(&barriers.slots.full[turn.slot], turn.parity);
      const int index = __shfl_sync(0xffffffff, barriers.slots.tile[turn.slot], 0);
      if (consumer.thread % 32 == 0) barrier_arrive(&barriers.slots.empty[turn.slot]);
      turn.advance();
      if (index >= p.order.tiles()) break;
      int local_head, block;
      p.order.locate(index, &local_head, &block);
      consumer.walk(local_head, block);
    }
    if (consumer.thread == 0) copy_out_wait_read();
  }
#else
  __trap();
#endif
}

template <class Tile>
cudaError_t launch(const HopperBackward& call, const SpillRound& round, int* next_tile) {
  const AttentionExtents& extents = call.extents;
  SpilledArguments p{};
  if (!encode_tokens(&p.k, call.operands.k, extents, extents.kv_heads, Tile::kKeys, kAllChunks) ||
      !encode_tokens(&p.dq, call.operands.dq, extents, extents.heads, 64, kOneChunk)) {
    return cudaErrorInvalidValue;
  }
  p.spill = round.spill;
  p.layout = SpillLayout{visibility_of(extents)};
  p.heads = static_cast<int>(extents.heads);
  p.group = static_cast<int>(extents.heads / extents.kv_heads);
  p.first_head = round.first_head * p.group;
  p.scale = extents.scale;
  p.order.blocks = ceil_div(static_cast<int>(extents.sequence), 64 * Tile::kWarpgroups);
  p.order.heads = round.heads * p.group;
  p.order.heads_per_section = p.group * section_heads(extents, round.heads, 1);
  p.order.descending = extents.causal;
  int blocks = 0;
  p.next_tile = tile_counter(p.order.tiles(), next_tile, &blocks);
  return launch_kernel(flash_attention_backward_spilled_kernel<Tile>, blocks, Tile::kThreads,
                       Tile::kSharedBytes, p, call.stream);
}

}  // namespace

cudaError_t launch_backward_spilled_hopper(const HopperBackward& call, const SpillRound& round, int* next_tile) {
  return call.extents.head_size == 64 ? launch<SpilledTile<64>>(call, round, next_tile)
                                      : launch<SpilledTile<128>>(call, round, next_tile);
}

}  // namespace ridge::backends::cuda
