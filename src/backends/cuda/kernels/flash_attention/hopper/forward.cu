// SPDX-License-Identifier: Apache-2.0
// Flash attention forward for Hopper (sm_90a): bf16, head sizes 64, 128 and 256. Other sizes and
// chips run in tensor/forward.cu or portable/forward.cu.
//
// One producer warp loads shared memory with the tensor copy engine (TMA). Each of 1 to 3 consumer
// warpgroups owns 64 queries, keeps their scores, probabilities and outputs in registers, and runs
// the softmax of one key block while the tensor cores compute the next block's scores and this
// one's output. Ping-pong barriers let one warpgroup at a time use the tensor cores, so that the
// softmax of one overlaps the products of another. (The scheme is that of FlashAttention-3.)
//
// Bound: 4 E FLOPs per visited pair at the bf16 rate; one exponential per pair at 16 per clock and
// multiprocessor, which takes as long as the products at E 64, half as long at E 128.
#include "backends/cuda/kernels/flash_attention/hopper/forward_tile.cuh"
#include "backends/cuda/kernels/flash_attention/hopper/launch.h"
#include "backends/cuda/kernels/flash_attention/hopper/softmax.cuh"

namespace ridge::backends::cuda {
namespace {

using namespace hopper;

// Named barriers that order the warpgroups at the tensor cores: warpgroup w waits on barrier 1 + w,
// which w - 1 releases.
template <class Tile>
struct PingPongBarriers {
  int own, next;
  __device__ __forceinline__ explicit PingPongBarriers(int consumer)
      : own(1 + consumer), next(1 + (consumer + 1 == Tile::kWarpgroups ? 0 : consumer + 1)) {
    if (Tile::kPingPong && consumer == Tile::kWarpgroups - 1) pass();
  }
  __device__ __forceinline__ void wait() const {
    if (Tile::kPingPong) named_sync(own, 2 * kWarpgroupThreads);
  }
  __device__ __forceinline__ void pass() const {
    if (Tile::kPingPong) named_arrive(next, 2 * kWarpgroupThreads);
  }
  __device__ __forceinline__ void skip() const {
    wait();
    pass();
  }
};

template <class Tile>
struct Consumer {
  static constexpr int kScores = Tile::kKeys / 2;  // accumulator registers of 64 queries x kKeys
  static constexpr int kOutput = Tile::kHeadSize / 2;  // so many hold 64 queries x E

  const ForwardArguments& p;
  ForwardBarriers<Tile> barriers;
  int warpgroup;  // among the consumers
  int thread;     // in the warpgroup
  Ring<Tile::kStages> key_ring{}, value_ring{};
  uint32_t q_parity = 0;

  __device__ __forceinline__ void arrive(uint32_t barrier) const {
    if (thread % 32 == 0) barrier_arrive(barrier);
  }
  __device__ __forceinline__ uint32_t queries() const {
    return barriers.base + warpgroup * Tile::kOwnQueryBytes;
  }
  __device__ __forceinline__ uint32_t keys() const {
    return barriers.base + Tile::kKeyOffset + key_ring.slot * Tile::kKeyBytes;
  }
  __device__ __forceinline__ void wait_keys() const {
    barrier_wait(barriers.k_full(key_ring.slot), key_ring.parity);
  }
  __device__ __forceinline__ void wait_values() const {
    barrier_wait(barriers.v_full(value_ring.slot), value_ring.parity);
  }
  __device__ __forceinline__ void release_keys() {
    arrive(barriers.k_empty(key_ring.slot));
    key_ring.advance();
  }
  __device__ __forceinline__ void release_values() {
    arrive(barriers.v_empty(value_ring.slot));
    value_ring.advance();
  }
  // Releases a block that other warpgroups of the tile need and this one does not.
  __device__ __forceinline__ void skip() {
    wait_keys();
    release_keys();
    wait_values();
    release_values();
  }

  __device__ __forceinline__ void scores(float (&s)[kScores]) const {
    const uint64_t q = by_columns(queries());
    const uint64_t k = by_columns(keys());
#pragma unroll
    for (int i = 0; i < Tile::kHeadSize / 16; ++i) {
      Product<Tile::kKeys>::template shared<0, 0>(s, q + column_step<64>(i),
                                                  k + column_step<Tile::kKeys>(i), i != 0);
    }
    product_commit();
  }

  __device__ __forceinline__ void outputs(float (&o)[kOutput],
                                          const uint32_t (&probability)[kScores / 2]) const {
    const uint64_t v = by_rows(
        barriers.base + Tile::kValueOffset + value_ring.slot * Tile::kKeyBytes, Tile::kKeys);
#pragma unroll
    for (int i = 0; i < Tile::kKeys / 16; ++i) {
      Product<Tile::kHeadSize>::template registers<1>(o, probability + 4 * i, v + row_step(i), 1);
    }
    product_commit();
  }

  // Processes one key block: its scores are computed while the previous block finishes its outputs.
  // Its keys are already loaded, because the previous step waited for them.
  template <bool kHide>
  __device__ __forceinline__ void step(int n,
                                       int first_key_block,
                                       int flat_head,
                                       int row,
                                       const PingPongBarriers<Tile>& ping_pong,
                                       float (&o)[kOutput],
                                       uint32_t (&probability)[kScores / 2],
                                       RowState& rows) {
    float s[kScores];
    ping_pong.wait();
    product_fence();
    scores(s);
    wait_values();
    product_fence();
    outputs(o, probability);
    ping_pong.pass();
    product_wait<1>();
    pin(s);
    const int column = n * Tile::kKeys + 2 * (thread % 4);
    if (kHide) hide_keys(s, row_visibility<Tile>(p.visibility, flat_head / p.heads), row, column);
    if (Tile::kEarlyWait) {
      product_wait<0>();
      pin(o);
      release_values();
    }
    float factor[2] = {1.0f, 1.0f};
    const bool moved = exponentials(s, rows, p.scale_log2);
    if (moved) {
      scores_again<Tile>(s, queries(), keys(), thread);
      if (kHide) hide_keys(s, row_visibility<Tile>(p.visibility, flat_head / p.heads), row, column);
      exponentials_of_maximum(s, rows, factor, p.scale_log2);
    }
    release_keys();
    if (!Tile::kEarlyWait) {
      pin(s);
      // A branch here keeps the compiler from moving the exponentials behind the wait: they must
      // run concurrently with the output product.
      if (n > first_key_block) wait_keys();
      product_wait<0>();
      pin(o);
      release_values();
    } else if (n > first_key_block) {
      wait_keys();
    }
    if (moved) {
#pragma unroll
      for (int i = 0; i < kOutput; ++i) o[i] *= factor[(i / 2) % 2];
    }
    pack(s, probability);
    pin(probability);
  }

  __device__ __forceinline__ void attend(int flat_head,
                                         int block,
                                         const PingPongBarriers<Tile>& ping_pong) {
    const int first = block * Tile::kQueries + warpgroup * 64 - p.shift;
    const int row = first + (thread / 32) * 16 + (thread % 32) / 4;
    const int batch = flat_head / p.heads;
    const auto& visibility = row_visibility<Tile>(p.visibility, batch);
    const BlockRange tile = tile_keys<Tile>(p, batch, block);
    BlockRange own = key_blocks(visibility, first, first + 63, Tile::kKeys);
    if (first < 0) own.begin = own.end = tile.begin;
    const BlockRange whole = whole_key_blocks(visibility, first, first + 63, Tile::kKeys);
    if (Tile::kWarpgroups > 1) {
      const int hidden = tile.end - own.end;
      // The vote and the barrier show the compiler that the warp does not diverge: without them it
      // stops using uniform registers for the code that follows.
      if (__any_sync(0xffffffff, hidden > 0)) {
        const int skipped = own.end > own.begin ? hidden : hidden - 1;
#pragma unroll 1
        for (int i = 0; i < hidden; ++i) {
          skip();
          if (i < skipped) ping_pong.skip();
        }
      }
      __syncwarp();
    }
    if (own.end == own.begin) return;
    barrier_wait(barriers.q_full(warpgroup), q_parity);
    q_parity ^= 1;
    float o[kOutput];
    uint32_t probability[kScores / 2];
    RowState rows;
    {
      float s[kScores];
      wait_keys();
      product_fence();
      scores(s);
#pragma unroll
      for (int i = 0; i < kOutput; ++i) o[i] = 0.0f;
      product_wait<0>();
      pin(s);
      release_keys();
      hide_keys(s, row_visibility<Tile>(p.visibility, batch), row,
                (own.end - 1) * Tile::kKeys + 2 * (thread % 4));
      float factor[2];
      exponentials_of_maximum(s, rows, factor, p.scale_log2);
      pack(s, probability);
      pin(probability);
    }
    int n = own.end - 2;
    if (n >= own.begin) wait_keys();
    while (n >= own.begin) {
      for (; n >= own.begin && contains(whole, n); --n) {
        step<false>(n, own.begin, flat_head, row, ping_pong, o, probability, rows);
      }
      for (; n >= own.begin && !contains(whole, n); --n) {
        step<true>(n, own.begin, flat_head, row, ping_pong, o, probability, rows);
      }
    }
    release_queries();
    wait_values();
    product_fence();
    outputs(o, probability);
    product_wait<0>();
    pin(o);
    release_values();
    if (Tile::kWarpgroups > 1) {
      if (__any_sync(0xffffffff, own.begin > tile.begin)) {
#pragma unroll 1
        for (int i = own.begin - tile.begin; i > 0; --i) {
          ping_pong.skip();
          skip();
        }
      }
      __syncwarp();
    }
    finish(flat_head, first, row, o, rows);
  }

  // Called after the last score product; if the output is staged in the place of the queries,
  // `finish` releases them.
  __device__ __forceinline__ void release_queries() const {
    if (!Tile::kOutputOverQuery) arrive(barriers.q_empty(warpgroup));
  }

  // Divides by the sums, writes lse, and sends the outputs through shared memory to the copy
  // engine.
  __device__ __forceinline__ void finish(int flat_head,
                                         int first,
                                         int row,
                                         float (&o)[kOutput],
                                         const RowState& rows) {
    const int batch = flat_head / p.heads;
    const int head = flat_head - batch * p.heads;
    float inverse[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float sum = rows.sum[r];
      sum += __shfl_xor_sync(0xffffffff, sum, 1);
      sum += __shfl_xor_sync(0xffffffff, sum, 2);
      inverse[r] = sum > 0.0f ? 1.0f / sum : 0.0f;
      const int query = row + 8 * r;
      if (thread % 4 == 0 && query < p.visibility.sequence) {
        constexpr float kLn2 = 0.6931471805599453f;
        const int64_t token = static_cast<int64_t>(batch) * p.visibility.sequence + query;
        p.lse[token * p.heads + head] =
            sum > 0.0f ? rows.reference[r] * kLn2 + logf(sum) : -kInfinity;
      }
    }
    const uint32_t staged = barriers.base + Tile::kOutputOffset + warpgroup * Tile::kOwnOutputBytes;
#pragma unroll
    for (int chunk = 0; chunk < Tile::kHeadSize / kChunkColumns; chunk += Tile::kOutputChunks) {
      if (thread == 0 && !Tile::kOutputOverQuery) copy_out_wait_read();
      named_sync(4 + warpgroup, kWarpgroupThreads);
#pragma unroll
      for (int i = 0; i < Tile::kOutputChunks; ++i) {
        stage_chunk(staged + i * 64 * kRowBytes, thread, o + 32 * (chunk + i), inverse[0],
                    inverse[1]);
      }
      shared_writes_to_async();
      named_sync(4 + warpgroup, kWarpgroupThreads);
      if (thread == 0) {
        for (int i = 0; i < Tile::kOutputChunks; ++i) {
          copy_out(&p.o, staged + i * 64 * kRowBytes, first, chunk + i, head, batch);
        }
        copy_out_commit();
      }
    }
    if (thread == 0) {
      if (Tile::kOutputOverQuery) {
        copy_out_wait_read();
        barrier_arrive(barriers.q_empty(warpgroup));
      }
    }
  }
};

template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    flash_attention_forward_kernel(const __grid_constant__ ForwardArguments p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) uint8_t shared[];
  const ForwardBarriers<Tile> barriers{shared_address(shared)};
  if (threadIdx.x == 0) barriers.init();
  __syncthreads();
  grid_wait();
  const int role = __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / kWarpgroupThreads, 0);
  if (role == 0) {
    give_registers<Tile::kProducerRegisters>();
    if (threadIdx.x == 0) produce<Tile>(p, barriers);
    if (threadIdx.x == 32) produce_queries<Tile>(p, barriers);
  } else {
    take_registers<Tile::kConsumerRegisters>();
    Consumer<Tile> consumer{p, barriers, role - 1,
                            static_cast<int>(threadIdx.x) % kWarpgroupThreads};
    const PingPongBarriers<Tile> ping_pong(role - 1);
    Ring<2> tile_ring;
    while (true) {
      barrier_wait(barriers.tile_full(tile_ring.slot), tile_ring.parity);
      const int index = __shfl_sync(0xffffffff, load_shared_int(barriers.tile(tile_ring.slot)), 0);
      consumer.arrive(barriers.tile_empty(tile_ring.slot));
      tile_ring.advance();
      if (index >= p.order.tiles()) break;
      int flat_head, block;
      p.order.locate(index, &flat_head, &block);
      consumer.attend(flat_head, block, ping_pong);
    }
    if (consumer.thread == 0) copy_out_wait_read();
  }
#else
  __trap();
#endif
}

using Forward64 = ForwardTile<64, 128, 3, 4, 1>;
using Forward128 = ForwardTile<128, 128, 2, 2, 2>;
using Forward256 = ForwardTile<256, 64, 2, 2, 2>;
constexpr int kTilesWithoutQueue = 4;
// For short sequences: more and smaller tiles, two blocks per multiprocessor.
using Forward64Short = ForwardTile<64, 128, 1, 2, 0>;
using Forward128Short = ForwardTile<128, 64, 1, 2, 0>;

template <class Tile>
int query_tiles(const AttentionExtents& extents) {
  return ceil_div(static_cast<int>(extents.sequence), Tile::kQueries);
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

struct ForwardCall {
  const AttentionExtents& extents;
  const AttentionInput &q, &k, &v;
  const AttentionOutput& o;
  float* lse;
  int* next_tile;
  cudaStream_t stream;
};

template <class Tile>
cudaError_t launch(const ForwardCall& call) {
  const AttentionExtents& extents = call.extents;
  ForwardArguments p{};
  const bool mapped =
      encode_tokens(&p.q, call.q, extents, extents.heads, 64, kAllChunks) &&
      encode_tokens(&p.k, call.k, extents, extents.kv_heads, Tile::kKeys, kAllChunks) &&
      encode_tokens(&p.v, call.v, extents, extents.kv_heads, Tile::kKeys, kAllChunks) &&
      encode_tokens(&p.o, call.o, extents, extents.heads, 64, kOneChunk);
  if (!mapped) return cudaErrorInvalidValue;
  p.lse = call.lse;
  p.visibility = visibility_with_documents(extents);
  p.heads = static_cast<int>(extents.heads);
  p.group = static_cast<int>(extents.heads / extents.kv_heads);
  p.shift = tile_shift(p.visibility.sequence, Tile::kWarpgroups);
  p.scale_log2 = extents.scale * kLog2E;
  p.order.blocks = query_tiles<Tile>(extents);
  p.order.heads = static_cast<int>(extents.batch * extents.heads);
  p.order.heads_per_section = p.group * section_heads(extents, p.order.heads / p.group, 1);
  p.order.descending = extents.causal;
  const int places = multiprocessors() * Tile::kBlocksPerSm;
  const int blocks = p.order.tiles() < places ? p.order.tiles() : places;
  // With few tiles per block the load is balanced without a queue, and clearing a queue's counter
  // takes a launch.
  const bool has_queue = p.order.tiles() > kTilesWithoutQueue * blocks;
  if (has_queue) {
    p.next_tile = call.next_tile;
    const cudaError_t status = cudaMemsetAsync(call.next_tile, 0, sizeof(int), call.stream);
    if (status != cudaSuccess) return status;
  }
  return launch_kernel(flash_attention_forward_kernel<Tile>, blocks, Tile::kThreads,
                       Tile::kSharedBytes, p, call.stream, has_queue ? kInTurn : kAfterTrigger);
}

template <class Tile>
cudaError_t launch_in_rows(const ForwardCall& call) {
  return call.extents.positions != nullptr ? launch<WithDocuments<Tile>>(call) : launch<Tile>(call);
}

bool is_short(const AttentionExtents& extents, int queries) {
  const int64_t tiles =
      ceil_div(static_cast<int>(extents.sequence), queries) * extents.batch * extents.heads;
  return tiles < multiprocessors() || extents.sequence <= 128;
}

}  // namespace

cudaError_t launch_flash_attention_forward_hopper(const AttentionExtents& extents,
                                                  const AttentionInput& q,
                                                  const AttentionInput& k,
                                                  const AttentionInput& v,
                                                  const AttentionOutput& o,
                                                  float* lse,
                                                  void* workspace,
                                                  cudaStream_t stream) {
  const ForwardCall call{extents, q, k, v, o, lse, static_cast<int*>(workspace), stream};
  if (extents.head_size == 64) {
    return is_short(extents, Forward64::kQueries) ? launch_in_rows<Forward64Short>(call)
                                                  : launch_in_rows<Forward64>(call);
  }
  if (extents.head_size == 128) {
    return is_short(extents, Forward128::kQueries) ? launch_in_rows<Forward128Short>(call)
                                                   : launch_in_rows<Forward128>(call);
  }
  return launch_in_rows<Forward256>(call);
}

int64_t flash_attention_forward_hopper_pairs(const AttentionExtents& extents) {
  if (extents.head_size == 64) {
    return is_short(extents, Forward64::kQueries) ? tile_pairs<Forward64Short>(extents)
                                                  : tile_pairs<Forward64>(extents);
  }
  if (extents.head_size == 128) {
    return is_short(extents, Forward128::kQueries) ? tile_pairs<Forward128Short>(extents)
                                                   : tile_pairs<Forward128>(extents);
  }
  return tile_pairs<Forward256>(extents);
}

}  // namespace ridge::backends::cuda
