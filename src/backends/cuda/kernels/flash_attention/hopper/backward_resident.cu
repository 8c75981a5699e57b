// SPDX-License-Identifier: Apache-2.0
// Flash attention backward for Hopper for few and short sequences: bf16 (head sizes 64 and 128) and
// TF32 (head size 64), in one launch whose blocks all run at once. Other cases are in backward.cu
// and backward_tf32.cu.
//
// Such a launch is bound by latency, so all loads are issued at once. A warpgroup keeps 64 rows of
// two operands, a and b. All tiles of the two other operands, c and d, that a block needs are
// copied at once. Meanwhile the warpgroup computes the row statistics of the queries that it needs
// (lse in base 2; delta, the product of each row of dO and O):
//   key blocks:   rows are keys,    (a, b) = (K, V),  (c, d) = (Q, dO), of all query heads of the
//                 group: dV += P^T d, dK += dS^T c. The two warpgroups have the same rows and
//                 alternate between the tiles; at the end one adds up dK, the other dV;
//   query blocks: rows are queries, (a, b) = (Q, dO), (c, d) = (K, V): dQ += dS c, each warpgroup
//                 for its own rows.
// The scores are computed twice, and nothing is summed across blocks. Bound: the latency of a
// launch, of memory, and of four products and an exponential for every second tile of a key block.
#include "backends/cuda/kernels/flash_attention/hopper/launch.h"
#include "backends/cuda/kernels/flash_attention/hopper/resident_tile.cuh"
#include "backends/cuda/kernels/flash_attention/hopper/score_tile.cuh"

namespace ridge::backends::cuda {
namespace {

using namespace hopper;

constexpr int kRows = kOwnRows;  // rows of every tile
constexpr int kGroups = 2;       // warpgroups per block
constexpr int kThreads = kGroups * kWarpgroupThreads;
constexpr int kMostTiles = 8;  // a block iterates over no more
constexpr int kMostBytes = 227 * 1024;

struct BackwardArguments {
  CUtensorMap q, k, v, d_o;
  AttentionInput o, d_o_rows;
  AttentionOutput dq, dk, dv;
  const float* lse;  // [N, H]
  DocumentVisibility visibility;
  int batch, heads, kv_heads, key_blocks, query_blocks;
  float scale;
};

// A block's shared memory: the statistics of 64 queries per place, barriers, weights, tiles.
template <class Tiles>
struct Memory {
  static constexpr int kStatisticsBytes = 4 * kRows * kMostTiles;
  static constexpr int kBarrierOffset = 2 * kStatisticsBytes;
  static constexpr int kWeightOffset = (kBarrierOffset + 8 * (1 + kMostTiles) + 1023) / 1024 * 1024;
  static constexpr int kTilesOffset = kWeightOffset + kGroups * Tiles::kWeightBytes;
  static constexpr int bytes(int own, int streamed) {
    return kTilesOffset + 2 * (own + streamed) * Tiles::kBytes;
  }

  uint32_t base;
  int own_tiles;
  __device__ uint32_t minus_lse(int place) const { return base + 4 * kRows * place; }
  __device__ uint32_t minus_delta(int place) const { return minus_lse(place) + kStatisticsBytes; }
  __device__ uint32_t own_full() const { return base + kBarrierOffset; }
  __device__ uint32_t full(int tile) const { return base + kBarrierOffset + 8 * (1 + tile); }
  __device__ uint32_t weights(int group) const {
    return base + kWeightOffset + group * Tiles::kWeightBytes;
  }
  __device__ uint32_t own(int operand, int tile) const {
    return base + kTilesOffset + (2 * tile + operand) * Tiles::kBytes;
  }
  __device__ uint32_t streamed(int operand, int tile) const {
    return own(operand, own_tiles + tile);
  }
};

// The work of a block: its rows, and the tiles that it iterates over, head by head.
template <bool kOwnsKeys>
struct ResidentBlock {
  static constexpr int kOwnTiles = kOwnsKeys ? 1 : kGroups;
  int batch, head, first, begin, count, tiles, group;

  // For causal attention the longest blocks of each kind come first: early keys, late queries.
  __device__ __forceinline__ ResidentBlock(const BackwardArguments& p, int index) {
    const int heads = kOwnsKeys ? p.kv_heads : p.heads, flat = index % (p.batch * heads),
              rank = index / (p.batch * heads);
    batch = flat / heads;
    head = flat % heads;
    first = (kOwnsKeys ? rank : p.query_blocks - 1 - rank) * kRows * kOwnTiles;
    const int last = min(first + kRows * kOwnTiles, p.visibility.sequence) - 1;
    const DocumentVisibility visibility = p.visibility.in_row(batch);
    const BlockRange range = kOwnsKeys ? query_blocks(visibility, first, last, kRows)
                                       : key_blocks(visibility, first, last, kRows);
    group = p.heads / p.kv_heads;
    begin = range.begin;
    count = max(range.end - range.begin, 0);
    tiles = kOwnsKeys ? count * group : count;
  }
  __device__ __forceinline__ int streamed_head(int tile) const {
    return kOwnsKeys ? head * group + tile / count : head / group;
  }
  __device__ __forceinline__ int streamed_row(int tile) const {
    return (begin + tile % count) * kRows;
  }
};

template <class Tiles, bool kOwnsKeys>
__device__ __forceinline__ void copy_all(const BackwardArguments& p,
                                         const Memory<Tiles>& memory,
                                         const ResidentBlock<kOwnsKeys>& work) {
  const CUtensorMap *a = kOwnsKeys ? &p.k : &p.q, *b = kOwnsKeys ? &p.v : &p.d_o,
                    *c = kOwnsKeys ? &p.q : &p.k, *d = kOwnsKeys ? &p.d_o : &p.v;
  barrier_expect(memory.own_full(), 2 * work.kOwnTiles * Tiles::kBytes);
  for (int tile = 0; tile < work.kOwnTiles; ++tile) {
    const int row = work.first + tile * kRows;
    copy_in(memory.own(0, tile), a, memory.own_full(), row, work.head, work.batch);
    copy_in(memory.own(1, tile), b, memory.own_full(), row, work.head, work.batch);
  }
  for (int tile = 0; tile < work.tiles; ++tile) {
    const int head = work.streamed_head(tile), row = work.streamed_row(tile);
    barrier_expect(memory.full(tile), 2 * Tiles::kBytes);
    copy_in(memory.streamed(0, tile), c, memory.full(tile), row, head, work.batch);
    copy_in(memory.streamed(1, tile), d, memory.full(tile), row, head, work.batch);
  }
}

// Rows of o and dO for the statistics of 64 queries of a head; kLanes threads share a row.
template <class Tiles, int kE>
struct StatisticsRows {
  using Element = Tiles::Element;
  static constexpr int kVector = 16 / static_cast<int>(sizeof(Element));
  static constexpr int kLanes = kE / kVector, kAtOnce = kWarpgroupThreads / kLanes;
  static constexpr int kRounds = kRows / kAtOnce;
  uint4 o[kRounds], d_o[kRounds];
  float minus_lse;

  static __device__ __forceinline__ int thread() {
    return static_cast<int>(threadIdx.x) % kWarpgroupThreads;
  }
  static __device__ __forceinline__ uint4 vector(const AttentionInput& x, int64_t token, int head) {
    return *reinterpret_cast<const uint4*>(static_cast<const Element*>(x.data) +
                                           token * x.token_stride + head * x.head_stride +
                                           thread() % kLanes * kVector);
  }
  __device__ __forceinline__ void set_out(const BackwardArguments& p,
                                          int batch,
                                          int head,
                                          int first) {
    const int sequence = p.visibility.sequence;
    const int64_t token = static_cast<int64_t>(batch) * sequence;
#pragma unroll
    for (int i = 0; i < kRounds; ++i) {
      const int query = first + i * kAtOnce + thread() / kLanes;
      o[i] = d_o[i] = make_uint4(0, 0, 0, 0);
      if (query >= sequence) continue;
      o[i] = vector(p.o, token + query, head);
      d_o[i] = vector(p.d_o_rows, token + query, head);
    }
    const int query = first + thread() % kRows;
    minus_lse = query < sequence ? -p.lse[(token + query) * p.heads + head] * kLog2E : kNoScore;
  }
  __device__ __forceinline__ void arrive(const Memory<Tiles>& memory, int place) const {
    if (thread() < kRows) store_word(memory.minus_lse(place) + 4 * thread(), minus_lse);
#pragma unroll
    for (int i = 0; i < kRounds; ++i) {
      float sum = Tiles::dot(o[i], d_o[i]);
#pragma unroll
      for (int step = kLanes / 2; step > 0; step /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, step);
      if (thread() % kLanes == 0)
        store_word(memory.minus_delta(place) + 4 * (i * kAtOnce + thread() / kLanes), -sum);
    }
  }
};

// Computes the statistics of the queries that this warpgroup needs.
template <class Tiles, int kE, bool kOwnsKeys>
__device__ __forceinline__ void row_statistics(const BackwardArguments& p,
                                               const Memory<Tiles>& memory,
                                               const ResidentBlock<kOwnsKeys>& work,
                                               int group) {
  if constexpr (kOwnsKeys) {
    // Two tiles at a time usually cover all tiles.
    for (int tile = group; tile < work.tiles; tile += 2 * kGroups) {
      const int next = tile + kGroups;
      StatisticsRows<Tiles, kE> rows, more;
      rows.set_out(p, work.batch, work.streamed_head(tile), work.streamed_row(tile));
      if (next < work.tiles)
        more.set_out(p, work.batch, work.streamed_head(next), work.streamed_row(next));
      rows.arrive(memory, tile);
      if (next < work.tiles) more.arrive(memory, next);
    }
  } else {
    StatisticsRows<Tiles, kE> rows;
    rows.set_out(p, work.batch, work.head, work.first + group * kRows);
    rows.arrive(memory, group);
  }
}

// The warpgroup's part of the products: adds to of_a and, in key blocks, to of_b.
template <class Tiles, bool kOwnsKeys>
__device__ __forceinline__ void iterate(const BackwardArguments& p,
                                        const Memory<Tiles>& memory,
                                        const ResidentBlock<kOwnsKeys>& work,
                                        int group,
                                        typename Tiles::GradientSum& of_a,
                                        typename Tiles::GradientSum& of_b) {
  const int thread = static_cast<int>(threadIdx.x) % kWarpgroupThreads;
  const int own_tile = kOwnsKeys ? 0 : group, own = work.first + own_tile * kRows;
  float minus_lse[2], minus_delta[2];
  if constexpr (!kOwnsKeys) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int place = 4 * (thread / 32 * 16 + thread % 32 / 4 + 8 * r);
      minus_lse[r] = __uint_as_float(load_word(memory.minus_lse(group) + place));
      minus_delta[r] = __uint_as_float(load_word(memory.minus_delta(group) + place));
    }
  }
  const DocumentVisibility visibility = p.visibility.in_row(work.batch);
  barrier_wait(memory.own_full(), 0);
  for (int tile = kOwnsKeys ? group : 0; tile < work.tiles; tile += kOwnsKeys ? kGroups : 1) {
    const int row = work.streamed_row(tile);
    const TileSight sight = kOwnsKeys ? TileSight(visibility, row, kRows, own, kRows)
                                      : TileSight(visibility, own, kRows, row, kRows);
    if (sight.none) continue;
    barrier_wait(memory.full(tile), 0);
    float s[32], dp[32];
    product_fence();
    Tiles::scores(s, memory.own(0, own_tile), memory.streamed(0, tile));
    Tiles::scores(dp, memory.own(1, own_tile), memory.streamed(1, tile));
    const auto statistics = [&] {
      if constexpr (kOwnsKeys) {
        const uint32_t place = 8 * (threadIdx.x % 4);
        return OfColumns{memory.minus_lse(tile) + place, memory.minus_delta(tile) + place};
      } else {
        return OfRows{minus_lse, minus_delta};
      }
    }();
    product_wait<1>();
    pin(s);
    probabilities<kOwnsKeys, kRows>(s, p.scale * kLog2E, sight.whole, visibility, own, row,
                                    statistics);
    product_wait<0>();
    pin(dp);
    typename Tiles::Weighted to_a, to_b;
    if constexpr (kOwnsKeys)
      to_b.add(of_b, s, memory.streamed(1, tile), memory.weights(group), 1 + group);
    score_gradients<kRows>(dp, s, statistics);
    to_a.add(of_a, dp, memory.streamed(0, tile), memory.weights(group), 1 + group);
    product_wait<0>();
    pin(of_a.x);
    if constexpr (kOwnsKeys) pin(of_b.x);
  }
}

// Passes a warpgroup's part of a sum to the other warpgroup through shared memory.
template <class GradientSum>
__device__ __forceinline__ void leave(uint32_t place, const GradientSum& sum) {
  constexpr int kCount = sizeof(GradientSum) / 4;
  const uint32_t own = place + 4 * (threadIdx.x % kWarpgroupThreads);
#pragma unroll
  for (int i = 0; i < kCount; ++i) store_word(own + 4 * kWarpgroupThreads * i, sum.x[i]);
}
template <class GradientSum>
__device__ __forceinline__ void add_left(GradientSum& sum, uint32_t place) {
  constexpr int kCount = sizeof(GradientSum) / 4;
  const uint32_t own = place + 4 * (threadIdx.x % kWarpgroupThreads);
#pragma unroll
  for (int i = 0; i < kCount; ++i)
    sum.x[i] += __uint_as_float(load_word(own + 4 * kWarpgroupThreads * i));
}

template <class Tiles, int kE, bool kOwnsKeys>
__device__ __forceinline__ void run_block(const BackwardArguments& p, uint32_t base, int index) {
  const ResidentBlock<kOwnsKeys> work(p, index);
  const Memory<Tiles> memory{base, work.kOwnTiles};
  const int group = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / kWarpgroupThreads, 0);
  if (threadIdx.x == 0) {
    for (int tile = -1; tile < work.tiles; ++tile) barrier_init(memory.full(tile), 1);
    barrier_init_fence();
    copy_all(p, memory, work);
  }
  row_statistics<Tiles, kE>(p, memory, work, group);
  __syncthreads();
  typename Tiles::GradientSum of_a, of_b;
  iterate(p, memory, work, group, of_a, of_b);
  const int64_t token = static_cast<int64_t>(work.batch) * p.visibility.sequence;
  const int sequence = p.visibility.sequence;
  if constexpr (kOwnsKeys) {
    // The tiles of a and b, and the first two of c and d, have been read, so their memory is
    // reused.
    __syncthreads();
    const uint32_t place = memory.own(0, 0), other = place + sizeof(of_a) * kWarpgroupThreads;
    if (group == 0)
      leave(place, of_b);
    else
      leave(other, of_a);
    __syncthreads();
    if (group == 0) {
      add_left(of_a, other);
      Tiles::store(p.dk, token, work.head, work.first, sequence, of_a, p.scale);
    } else {
      add_left(of_b, place);
      Tiles::store(p.dv, token, work.head, work.first, sequence, of_b, 1.0f);
    }
  } else {
    Tiles::store(p.dq, token, work.head, work.first + group * kRows, sequence, of_a, p.scale);
  }
}

template <class Tiles, int kE>
__global__ void __launch_bounds__(kThreads, 1)
    flash_attention_backward_resident_kernel(const __grid_constant__ BackwardArguments p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) uint8_t shared[];
  grid_wait();
  const int index = static_cast<int>(blockIdx.x), of_keys = p.batch * p.kv_heads * p.key_blocks;
  if (index < of_keys)
    run_block<Tiles, kE, true>(p, shared_address(shared), index);
  else
    run_block<Tiles, kE, false>(p, shared_address(shared), index - of_keys);
#else
  __trap();
#endif
}

struct Blocks {
  int of_keys, of_queries;  // per head
  int streamed;  // most tiles of c and d of a block: those of a key block, over its group

  explicit Blocks(const AttentionExtents& extents) {
    of_keys = ceil_div(static_cast<int>(extents.sequence), kRows);
    of_queries = ceil_div(of_keys, kGroups);
    streamed = of_keys * static_cast<int>(extents.heads / extents.kv_heads);
  }
  int64_t all(const AttentionExtents& extents) const {
    return extents.batch * (extents.kv_heads * of_keys + extents.heads * of_queries);
  }
  template <class Tiles>
  int bytes() const {
    const int keys = Memory<Tiles>::bytes(1, streamed),
              queries = Memory<Tiles>::bytes(kGroups, of_keys);
    return keys > queries ? keys : queries;
  }
  int bytes(const AttentionExtents& extents, DType dtype) const {
    if (dtype == DType::kF32) return bytes<Tf32Tiles<64>>();
    return extents.head_size == 64 ? bytes<Bf16Tiles<64>>() : bytes<Bf16Tiles<128>>();
  }
};

template <template <int> class Tiles, int kE>
cudaError_t launch(BackwardArguments p,
                   const AttentionExtents& extents,
                   const AttentionBackward& x,
                   cudaStream_t stream) {
  constexpr DType kDType = Tiles<kE>::kDType;
  const bool mapped =
      encode_tokens(&p.q, x.q, extents, extents.heads, kRows, kAllChunks, kDType) &&
      encode_tokens(&p.k, x.k, extents, extents.kv_heads, kRows, kAllChunks, kDType) &&
      encode_tokens(&p.v, x.v, extents, extents.kv_heads, kRows, kAllChunks, kDType) &&
      encode_tokens(&p.d_o, x.d_o, extents, extents.heads, kRows, kAllChunks, kDType);
  if (!mapped) return cudaErrorInvalidValue;
  const Blocks blocks(extents);
  return launch_kernel(flash_attention_backward_resident_kernel<Tiles<kE>, kE>,
                       static_cast<int>(blocks.all(extents)), kThreads, blocks.bytes<Tiles<kE>>(),
                       p, stream, kAfterTrigger);
}

}  // namespace

bool fits_backward_resident(const AttentionExtents& extents, DType dtype) {
  const int64_t most_columns = dtype == DType::kBF16 ? 128 : 64;
  if (extents.head_size % 64 != 0 || extents.head_size > most_columns) return false;
  const Blocks blocks(extents);
  return blocks.streamed <= kMostTiles && blocks.all(extents) <= multiprocessors() &&
         blocks.bytes(extents, dtype) <= kMostBytes;
}

cudaError_t launch_flash_attention_backward_resident(const AttentionExtents& extents,
                                                     DType dtype,
                                                     const AttentionBackward& x,
                                                     cudaStream_t stream) {
  const Blocks blocks(extents);
  BackwardArguments p{};
  p.o = x.o;
  p.d_o_rows = x.d_o;
  p.dq = x.dq;
  p.dk = x.dk;
  p.dv = x.dv;
  p.lse = x.lse;
  p.visibility = visibility_with_documents(extents);
  p.batch = static_cast<int>(extents.batch);
  p.heads = static_cast<int>(extents.heads);
  p.kv_heads = static_cast<int>(extents.kv_heads);
  p.key_blocks = blocks.of_keys;
  p.query_blocks = blocks.of_queries;
  p.scale = extents.scale;
  if (dtype == DType::kF32) return launch<Tf32Tiles, 64>(p, extents, x, stream);
  return extents.head_size == 64 ? launch<Bf16Tiles, 64>(p, extents, x, stream)
                                 : launch<Bf16Tiles, 128>(p, extents, x, stream);
}

AttentionPairs flash_attention_backward_resident_pairs(const AttentionExtents& extents) {
  return visited_pairs(visibility_of(extents), kRows, kRows, extents.batch * extents.heads);
}

}  // namespace ridge::backends::cuda
