// SPDX-License-Identifier: Apache-2.0
// Flash attention forward for Hopper (sm_90a): bf16, head sizes 64, 128 and 256. Other sizes and chips run in
// flash_attention_portable.cu.
//
// One producer warp feeds shared memory through the tensor copy engine; each of 1 to 3 consumer warpgroups owns 64
// queries, keeps their scores, probabilities and outputs in registers, and runs the softmax of one key block while
// the tensor cores run the next block's scores and this one's output. Named barriers let the warpgroups take turns
// at the tensor cores, so that one's softmax falls into another's products. (The scheme is FlashAttention-3's.)
//
// Bound: 4 E FLOPs a visited pair at the bf16 rate; one exponential a pair at 16 a clock and multiprocessor, which
// costs as much as the products at E 64, half at E 128.
#include "backends/cuda/kernels/flash_attention_hopper_launch.h"
#include "backends/cuda/kernels/flash_attention_wgmma.cuh"

namespace ridge::backends::cuda {
namespace {

using namespace hopper;

constexpr float kInfinity = __builtin_huge_valf();

struct ForwardArguments {
  CUtensorMap q, k, v, o;
  float* lse;      // [N, H]
  int* next_tile;  // zero at launch; null where the grid holds every tile
  TileOrder order;
  Visibility visibility;
  int heads;
  int group;  // query heads a key head
  float scale_log2;
};

template <int kHeadSizeT, int kKeysT, int kWarpgroupsT, int kStagesT, bool kOutputOverQueryT>
struct ForwardTile {
  static constexpr int kHeadSize = kHeadSizeT;
  static constexpr int kKeys = kKeysT;
  static constexpr int kWarpgroups = kWarpgroupsT;
  static constexpr int kStages = kStagesT;
  // The output is staged over the queries where shared memory holds no tile of its own for it.
  static constexpr bool kOutputOverQuery = kOutputOverQueryT;
  static constexpr int kQueries = 64 * kWarpgroups;
  static constexpr int kThreads = kWarpgroupThreads * (1 + kWarpgroups);
  static constexpr int kBlocksPerSm = kWarpgroups == 1 ? 2 : 1;
  // 64 Ki registers by the multiprocessor: 128 x (producer + consumers x warpgroups) x blocks.
  static constexpr int kProducerRegisters = kWarpgroups == 2 ? (kHeadSize == 256 ? 24 : 40) : (kWarpgroups == 3 ? 32 : 40);
  static constexpr int kConsumerRegisters = kWarpgroups == 2 ? (kHeadSize == 256 ? 240 : 232) : (kWarpgroups == 3 ? 160 : 216);
  static constexpr int kOwnQueryBytes = 64 * kHeadSize * 2;  // of one warpgroup
  static constexpr int kQueryBytes = kWarpgroups * kOwnQueryBytes;
  static constexpr int kKeyBytes = kKeys * kHeadSize * 2;
  static constexpr int kKeyOffset = kQueryBytes;
  static constexpr int kValueOffset = kKeyOffset + kStages * kKeyBytes;
  static constexpr int kOutputOffset = kOutputOverQuery ? 0 : kValueOffset + kStages * kKeyBytes;
  static constexpr int kBarrierOffset =
      kValueOffset + kStages * kKeyBytes + (kOutputOverQuery ? 0 : kQueryBytes);
  static constexpr int kBarrierBytes = 256;
  static constexpr int kSharedBytes = kBarrierOffset + kBarrierBytes;
#ifndef RIDGE_TURNS
#define RIDGE_TURNS (kWarpgroups == 2)
#endif
#ifndef RIDGE_EARLY
#define RIDGE_EARLY (kHeadSize != 64)
#endif
  static constexpr bool kTurns = kWarpgroups > 1 && (RIDGE_TURNS);
  static constexpr bool kEarlyWait = RIDGE_EARLY;
  static_assert(kSharedBytes <= 232448);
};

// The barriers, eight bytes each from Tile::kBarrierOffset on.
template <class Tile>
struct ForwardBarriers {
  static constexpr int kQ = Tile::kWarpgroups;
  static constexpr int kK = 2 * kQ + 6;
  uint32_t base;
  __device__ __forceinline__ uint32_t at(int index) const { return base + Tile::kBarrierOffset + 8 * index; }
  __device__ __forceinline__ uint32_t q_full(int warpgroup) const { return at(warpgroup); }
  __device__ __forceinline__ uint32_t q_empty(int warpgroup) const { return at(kQ + warpgroup); }
  __device__ __forceinline__ uint32_t tile_full(int slot) const { return at(2 * kQ + slot); }
  __device__ __forceinline__ uint32_t tile_empty(int slot) const { return at(2 * kQ + 2 + slot); }
  __device__ __forceinline__ uint32_t tile(int slot) const { return at(2 * kQ + 4 + slot); }  // the tile's number
  __device__ __forceinline__ uint32_t k_full(int slot) const { return at(kK + slot); }
  __device__ __forceinline__ uint32_t k_empty(int slot) const { return at(kK + Tile::kStages + slot); }
  __device__ __forceinline__ uint32_t v_full(int slot) const { return at(kK + 2 * Tile::kStages + slot); }
  __device__ __forceinline__ uint32_t v_empty(int slot) const { return at(kK + 3 * Tile::kStages + slot); }
  static_assert(8 * (kK + 4 * Tile::kStages) <= Tile::kBarrierBytes);

  __device__ __forceinline__ void init() const {
    constexpr int kWarps = 4 * Tile::kWarpgroups;
    for (int i = 0; i < Tile::kWarpgroups; ++i) {
      barrier_init(q_full(i), 1);
      barrier_init(q_empty(i), Tile::kOutputOverQuery ? 1 : 4);
    }
    for (int i = 0; i < 2; ++i) {
      barrier_init(tile_full(i), 1);
      barrier_init(tile_empty(i), kWarps + 1);  // and the queries' producer
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
__device__ __forceinline__ BlockRange tile_keys(const ForwardArguments& p, int block) {
  const int first = block * Tile::kQueries;
  return key_blocks(p.visibility, first, first + Tile::kQueries - 1, Tile::kKeys);
}

// One thread: names the tiles, fetches keys and values block by block from the last.
template <class Tile>
__device__ __forceinline__ void produce(const ForwardArguments& p, const ForwardBarriers<Tile>& barriers) {
  prefetch_map(&p.k);
  prefetch_map(&p.v);
  const uint32_t shared = barriers.base;
  Ring<2> turn;
  Ring<Tile::kStages> key_ring, value_ring;
  int index = blockIdx.x;
  while (true) {
    barrier_wait(barriers.tile_empty(turn.slot), turn.parity ^ 1);
    store_shared_int(barriers.tile(turn.slot), index);
    barrier_arrive(barriers.tile_full(turn.slot));
    turn.advance();
    if (index >= p.order.tiles()) break;
    int flat_head, block;
    p.order.locate(index, &flat_head, &block);
    const int batch = flat_head / p.heads;
    const int head = flat_head - batch * p.heads;
    const int kv_head = head / p.group;
    const BlockRange keys = tile_keys<Tile>(p, block);

    auto fetch_keys = [&](int n) {
      const uint32_t full = barriers.k_full(key_ring.slot);
      barrier_wait(barriers.k_empty(key_ring.slot), key_ring.parity ^ 1);
      barrier_expect(full, Tile::kKeyBytes);
      copy_in(shared + Tile::kKeyOffset + key_ring.slot * Tile::kKeyBytes, &p.k, full, n * Tile::kKeys, kv_head,
              batch);
      key_ring.advance();
    };
    auto fetch_values = [&](int n) {
      const uint32_t full = barriers.v_full(value_ring.slot);
      barrier_wait(barriers.v_empty(value_ring.slot), value_ring.parity ^ 1);
      barrier_expect(full, Tile::kKeyBytes);
      copy_in(shared + Tile::kValueOffset + value_ring.slot * Tile::kKeyBytes, &p.v, full, n * Tile::kKeys,
              kv_head, batch);
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

// One thread of another warp: each warpgroup's 64 queries as soon as that warpgroup is done with those before, so that
// none waits for the slowest. Nothing is fetched past the end of the sequence.
template <class Tile>
__device__ __forceinline__ void produce_queries(const ForwardArguments& p, const ForwardBarriers<Tile>& barriers) {
  prefetch_map(&p.q);
  Ring<2> turn;
  uint32_t parities = 0;  // a bit a warpgroup
  while (true) {
    barrier_wait(barriers.tile_full(turn.slot), turn.parity);
    const int index = load_shared_int(barriers.tile(turn.slot));
    barrier_arrive(barriers.tile_empty(turn.slot));
    turn.advance();
    if (index >= p.order.tiles()) break;
    int flat_head, block;
    p.order.locate(index, &flat_head, &block);
    const int batch = flat_head / p.heads;
    const int head = flat_head - batch * p.heads;
#pragma unroll 1
    for (int w = 0; w < Tile::kWarpgroups; ++w) {
      const int first = block * Tile::kQueries + 64 * w;
      if (first >= p.visibility.sequence) break;
      barrier_wait(barriers.q_empty(w), ((parities >> w) & 1) ^ 1);
      parities ^= 1u << w;
      barrier_expect(barriers.q_full(w), Tile::kOwnQueryBytes);
      copy_in(barriers.base + w * Tile::kOwnQueryBytes, &p.q, barriers.q_full(w), first, head, batch);
    }
  }
}

// What a thread keeps of its two query rows (l / 4 and 8 further): the reference of the exponentials (log2, scaled)
// and its share of their sum.
struct RowState {
  // Before any key: so low that the first visible score overflows, and so moves the reference.
  float reference[2] = {kLowest, kLowest};
  float sum[2] = {0.0f, 0.0f};
  static constexpr float kLowest = -1.0e30f;
};

// Exponentials of the scores in place, against the reference as it is. A row's reference need not be its maximum:
// probabilities, sums and outputs scale alike, so any reference gives the same digits until something overflows.
// Returns whether something came near that; then nothing of the result may be used, and the scores are lost.
template <int kCount>
__device__ __forceinline__ bool exponentials(float (&s)[kCount], RowState& rows, float scale_log2) {
  constexpr float kCeiling = 1.0e12f;
  float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
  for (int j = 0; j < kCount; j += 4) {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      s[j + c] = exp2_fast(fmaf(s[j + c], scale_log2, -rows.reference[c / 2]));
      sum[c] += s[j + c];
    }
  }
  sum[0] += sum[1];
  sum[2] += sum[3];
  const bool fits = sum[0] < kCeiling && sum[2] < kCeiling;  // false for NaN
  if (__any_sync(0xffffffff, !fits)) return true;
  rows.sum[0] += sum[0];
  rows.sum[1] += sum[2];
  return false;
}

// The same with the reference moved to the maximum so far; the output must then be multiplied by factor[row].
template <int kCount>
__device__ __forceinline__ void exponentials_of_maximum(float (&s)[kCount],
                                                        RowState& rows,
                                                        float (&factor)[2],
                                                        float scale_log2) {
  float top[2] = {s[0], s[2]};
#pragma unroll
  for (int j = 0; j < kCount; j += 4) {
    top[0] = fmaxf(top[0], fmaxf(s[j], s[j + 1]));
    top[1] = fmaxf(top[1], fmaxf(s[j + 2], s[j + 3]));
  }
  float base[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    top[r] = fmaxf(top[r], __shfl_xor_sync(0xffffffff, top[r], 1));
    top[r] = fmaxf(top[r], __shfl_xor_sync(0xffffffff, top[r], 2));
    base[r] = fmaxf(rows.reference[r], top[r] * scale_log2);
    factor[r] = exp2_fast(rows.reference[r] - base[r]);
    rows.reference[r] = base[r];
    rows.sum[r] *= factor[r];
  }
#pragma unroll
  for (int j = 0; j < kCount; ++j) {
    s[j] = exp2_fast(fmaf(s[j], scale_log2, -base[(j / 2) % 2]));
    rows.sum[(j / 2) % 2] += s[j];
  }
}

// -inf where the key (column) is hidden from the query (row).
template <int kCount>
__device__ __forceinline__ void hide(float (&s)[kCount], const Visibility& v, int row, int column) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int query = row + 8 * r;
    const int end = v.causal ? min(v.sequence, query + 1) : v.sequence;
    const int begin = v.window > 0 ? query - v.window + 1 : 0;
#pragma unroll
    for (int j = 0; j < kCount; j += 4) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const int key = column + 2 * j + c;
        if (key >= end || key < begin) s[j + 2 * r + c] = -kInfinity;
      }
    }
  }
}

template <int kCount>
__device__ __forceinline__ void pack(const float (&s)[kCount], uint32_t (&packed)[kCount / 2]) {
#pragma unroll
  for (int j = 0; j < kCount / 2; ++j) packed[j] = pack_bf16(s[2 * j], s[2 * j + 1]);
}

// The scores of one warp's 16 rows once more, without the other warps. `queries` and `keys` are the tiles' rows of this
// warpgroup and block. A rare path: out of line and through memory, so that it costs the others no registers.
template <class Tile>
__device__ __forceinline__ void scores_again(float* s, uint32_t queries, uint32_t keys, int thread) {
  const int lane = thread % 32;
  const int row = (thread / 32) * 16 + lane % 16;
  const int key = (lane / 16) * 8 + lane % 8;
  const uint32_t q = queries + row * kRowBytes;
  const uint32_t k = keys + key * kRowBytes;
  float d[Tile::kKeys / 2] = {};
#pragma unroll 1
  for (int i = 0; i < Tile::kHeadSize / 16; ++i) {
    uint32_t a[4], b[4];
    const int unit = 2 * (i % 4);
    load_matrices(q + (i / 4) * 64 * kRowBytes + ((unit + lane / 16) ^ (row % 8)) * 16, a);
#pragma unroll
    for (int j = 0; j < Tile::kKeys / 16; ++j) {
      load_matrices(k + (i / 4) * Tile::kKeys * kRowBytes + 16 * j * kRowBytes +
                        ((unit + (lane / 8) % 2) ^ (key % 8)) * 16,
                    b);
      warp_product(d + 8 * j, a, b[0], b[1]);
      warp_product(d + 8 * j + 4, a, b[2], b[3]);
    }
  }
#pragma unroll
  for (int i = 0; i < Tile::kKeys / 2; ++i) s[i] = d[i];
}

// Whose turn it is at the tensor cores: warpgroup w waits on named barrier 1 + w, which w - 1 releases.
template <class Tile>
struct Turns {
  int own, next;
  __device__ __forceinline__ explicit Turns(int consumer)
      : own(1 + consumer), next(1 + (consumer + 1 == Tile::kWarpgroups ? 0 : consumer + 1)) {
    if (Tile::kTurns && consumer == Tile::kWarpgroups - 1) pass();
  }
  __device__ __forceinline__ void wait() const {
    if (Tile::kTurns) named_sync(own, 2 * kWarpgroupThreads);
  }
  __device__ __forceinline__ void pass() const {
    if (Tile::kTurns) named_arrive(next, 2 * kWarpgroupThreads);
  }
  __device__ __forceinline__ void skip() const {
    wait();
    pass();
  }
};

template <class Tile>
struct Consumer {
  static constexpr int kScores = Tile::kKeys / 2;    // accumulator registers of 64 queries x kKeys
  static constexpr int kOutput = Tile::kHeadSize / 2;  // of 64 queries x E

  const ForwardArguments& p;
  ForwardBarriers<Tile> barriers;
  int warpgroup;  // among the consumers
  int thread;     // in the warpgroup
  Ring<Tile::kStages> key_ring{}, value_ring{};
  uint32_t q_parity = 0;

  __device__ __forceinline__ void arrive(uint32_t barrier) const {
    if (thread % 32 == 0) barrier_arrive(barrier);
  }
  __device__ __forceinline__ uint32_t queries() const { return barriers.base + warpgroup * Tile::kOwnQueryBytes; }
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
  // Lets go of a block that other warpgroups of the tile need and this one does not.
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

  __device__ __forceinline__ void outputs(float (&o)[kOutput], const uint32_t (&probability)[kScores / 2]) const {
    const uint64_t v =
        by_rows(barriers.base + Tile::kValueOffset + value_ring.slot * Tile::kKeyBytes, Tile::kKeys);
#pragma unroll
    for (int i = 0; i < Tile::kKeys / 16; ++i) {
      Product<Tile::kHeadSize>::template registers<1>(o, probability + 4 * i, v + row_step(i), 1);
    }
    product_commit();
  }

  // One key block: its scores are formed while the block before finishes its outputs. Its keys are there: the
  // step before waited for them.
  template <bool kHide>
  __device__ __forceinline__ void step(int n,
                                       int first_key_block,
                                       int row,
                                       const Turns<Tile>& turns,
                                       float (&o)[kOutput],
                                       uint32_t (&probability)[kScores / 2],
                                       RowState& rows) {
    float s[kScores];
    turns.wait();
    product_fence();
    scores(s);
    wait_values();
    product_fence();
    outputs(o, probability);
    turns.pass();
    product_wait<1>();
    pin(s);
    const int column = n * Tile::kKeys + 2 * (thread % 4);
    if (kHide) hide(s, p.visibility, row, column);
    if (Tile::kEarlyWait) {
      product_wait<0>();
      pin(o);
      release_values();
    }
    float factor[2] = {1.0f, 1.0f};
    const bool moved = exponentials(s, rows, p.scale_log2);
    if (moved) {
      scores_again<Tile>(s, queries(), keys(), thread);
      if (kHide) hide(s, p.visibility, row, column);
      exponentials_of_maximum(s, rows, factor, p.scale_log2);
    }
    release_keys();
    if (!Tile::kEarlyWait) {
      pin(s);
      // A branch here keeps the compiler from moving the exponentials behind the wait: they must run beside the
      // output product.
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

  __device__ __forceinline__ void attend(int flat_head, int block, const Turns<Tile>& turns) {
    const int first = block * Tile::kQueries + warpgroup * 64;
    const int row = first + (thread / 32) * 16 + (thread % 32) / 4;
    const BlockRange tile = tile_keys<Tile>(p, block);
    BlockRange own = key_blocks(p.visibility, first, first + 63, Tile::kKeys);
    if (first >= p.visibility.sequence) own.begin = own.end = tile.begin;
    const BlockRange whole = whole_key_blocks(p.visibility, first, first + 63, Tile::kKeys);
    if (Tile::kWarpgroups > 1) {
      const int hidden = tile.end - own.end;
      // The vote and the barrier show the compiler that the warp stays together: without them it gives up uniform
      // registers for all that follows.
      if (__any_sync(0xffffffff, hidden > 0)) {
        const int turns_hidden = own.end > own.begin ? hidden : hidden - 1;
#pragma unroll 1
        for (int i = 0; i < hidden; ++i) {
          skip();
          if (i < turns_hidden) turns.skip();
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
      hide(s, p.visibility, row, (own.end - 1) * Tile::kKeys + 2 * (thread % 4));
      float factor[2];
      exponentials_of_maximum(s, rows, factor, p.scale_log2);
      pack(s, probability);
      pin(probability);
    }
    int n = own.end - 2;
    if (n >= own.begin) wait_keys();
    while (n >= own.begin) {
      for (; n >= own.begin && contains(whole, n); --n) {
        step<false>(n, own.begin, row, turns, o, probability, rows);
      }
      for (; n >= own.begin && !contains(whole, n); --n) {
        step<true>(n, own.begin, row, turns, o, probability, rows);
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
          turns.skip();
          skip();
        }
      }
      __syncwarp();
    }
    finish(flat_head, first, row, o, rows);
  }

  // After the last score product; where the output is staged over the queries, `finish` does it.
  __device__ __forceinline__ void release_queries() const {
    if (!Tile::kOutputOverQuery) arrive(barriers.q_empty(warpgroup));
  }

  // Divides by the sums, writes lse, and sends the outputs through shared memory to the copy engine.
  __device__ __forceinline__ void finish(
      int flat_head, int first, int row, float (&o)[kOutput], const RowState& rows) {
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
        p.lse[token * p.heads + head] = sum > 0.0f ? rows.reference[r] * kLn2 + logf(sum) : -kInfinity;
      }
    }
    if (thread == 0 && !Tile::kOutputOverQuery) copy_out_wait_read();
    named_sync(4 + warpgroup, kWarpgroupThreads);
    const uint32_t staged = barriers.base + Tile::kOutputOffset + warpgroup * Tile::kOwnQueryBytes;
    const int lane = thread % 32;
    const int staged_row = (thread / 32) * 16 + lane % 16;
    const uint32_t address = staged + staged_row * kRowBytes;
#pragma unroll
    for (int i = 0; i < Tile::kHeadSize / 16; ++i) {
      const uint32_t unit = (2 * (i % 4) + lane / 16) ^ (staged_row % 8);
      const float* c = o + 8 * i;
      store_matrices(address + (i / 4) * 64 * kRowBytes + unit * 16,
                     pack_bf16(c[0] * inverse[0], c[1] * inverse[0]),
                     pack_bf16(c[2] * inverse[1], c[3] * inverse[1]),
                     pack_bf16(c[4] * inverse[0], c[5] * inverse[0]),
                     pack_bf16(c[6] * inverse[1], c[7] * inverse[1]));
    }
    shared_writes_to_async();
    named_sync(4 + warpgroup, kWarpgroupThreads);
    if (thread == 0) {
      for (int chunk = 0; chunk < Tile::kHeadSize / kChunkColumns; ++chunk) {
        copy_out(&p.o, staged + chunk * 64 * kRowBytes, first, chunk, head, batch);
      }
      copy_out_commit();
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
  const int role = __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / kWarpgroupThreads, 0);
  if (role == 0) {
    give_registers<Tile::kProducerRegisters>();
    if (threadIdx.x == 0) produce<Tile>(p, barriers);
    if (threadIdx.x == 32) produce_queries<Tile>(p, barriers);
  } else {
    take_registers<Tile::kConsumerRegisters>();
    Consumer<Tile> consumer{p, barriers, role - 1, static_cast<int>(threadIdx.x) % kWarpgroupThreads};
    const Turns<Tile> turns(role - 1);
    Ring<2> turn;
    while (true) {
      barrier_wait(barriers.tile_full(turn.slot), turn.parity);
      const int index = __shfl_sync(0xffffffff, load_shared_int(barriers.tile(turn.slot)), 0);
      consumer.arrive(barriers.tile_empty(turn.slot));
      turn.advance();
      if (index >= p.order.tiles()) break;
      int flat_head, block;
      p.order.locate(index, &flat_head, &block);
      consumer.attend(flat_head, block, turns);
    }
    if (consumer.thread == 0) copy_out_wait_read();
  }
#else
  __trap();
#endif
}

#ifndef RIDGE_F64_STAGES
#define RIDGE_F64_STAGES 4
#endif
using Forward64 = ForwardTile<64, 128, 3, RIDGE_F64_STAGES, false>;
using Forward128 = ForwardTile<128, 128, 2, 2, false>;
using Forward256 = ForwardTile<256, 80, 2, 2, true>;
// Short sequences: more, smaller tiles, two blocks a multiprocessor.
using Forward64Short = ForwardTile<64, 128, 1, 2, true>;
using Forward128Short = ForwardTile<128, 64, 1, 2, true>;

template <class Tile>
int query_tiles(const AttentionExtents& extents) {
  return ceil_div(static_cast<int>(extents.sequence), Tile::kQueries);
}

// A warpgroup visits the blocks that its own 64 queries see.
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
  const bool mapped = encode_tokens(&p.q, call.q, extents, extents.heads, 64, kAllChunks) &&
                      encode_tokens(&p.k, call.k, extents, extents.kv_heads, Tile::kKeys, kAllChunks) &&
                      encode_tokens(&p.v, call.v, extents, extents.kv_heads, Tile::kKeys, kAllChunks) &&
                      encode_tokens(&p.o, call.o, extents, extents.heads, 64, kOneChunk);
  if (!mapped) return cudaErrorInvalidValue;
  p.lse = call.lse;
  p.visibility = visibility_of(extents);
  p.heads = static_cast<int>(extents.heads);
  p.group = static_cast<int>(extents.heads / extents.kv_heads);
  p.scale_log2 = extents.scale * kLog2E;
  p.order.blocks = query_tiles<Tile>(extents);
  p.order.heads = static_cast<int>(extents.batch * extents.heads);
  p.order.heads_per_section = p.group * section_heads(extents, p.order.heads / p.group, 1);
  p.order.descending = extents.causal;
  const int places = multiprocessors() * Tile::kBlocksPerSm;
  const int blocks = p.order.tiles() < places ? p.order.tiles() : places;
  if (p.order.tiles() > blocks) {
    p.next_tile = call.next_tile;
    const cudaError_t status = cudaMemsetAsync(call.next_tile, 0, sizeof(int), call.stream);
    if (status != cudaSuccess) return status;
  }
  return launch_kernel(flash_attention_forward_kernel<Tile>, blocks, Tile::kThreads, Tile::kSharedBytes, p,
                       call.stream);
}

bool is_short(const AttentionExtents& extents, int queries) {
  const int64_t tiles = ceil_div(static_cast<int>(extents.sequence), queries) * extents.batch * extents.heads;
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
    return is_short(extents, Forward64::kQueries) ? launch<Forward64Short>(call) : launch<Forward64>(call);
  }
  if (extents.head_size == 128) {
    return is_short(extents, Forward128::kQueries) ? launch<Forward128Short>(call) : launch<Forward128>(call);
  }
  return launch<Forward256>(call);
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
