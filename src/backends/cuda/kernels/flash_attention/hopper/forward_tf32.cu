// SPDX-License-Identifier: Apache-2.0
// Flash attention forward for fp32 operands in TF32 on Hopper, head sizes 64 and 128. The gradient
// is in backward_tf32.cu.
//
// A warpgroup keeps 64 queries and iterates over keys and values with the online softmax, 64 at a
// time, which one more warp prefetches. The output is summed transposed, O^T += V^T P^T. Bound: 4 E
// FLOPs per visited pair at the TF32 rate, which is also the rate at which shared memory delivers
// the operands.
#include "backends/cuda/kernels/flash_attention/hopper/launch.h"
#include "backends/cuda/kernels/flash_attention/hopper/score_tile.cuh"
#include "backends/cuda/kernels/flash_attention/hopper/tf32.cuh"

namespace ridge::backends::cuda {
namespace {

using namespace hopper;

struct ForwardArguments {
  CUtensorMap q, k, v;
  AttentionOutput o;
  float* lse;  // [N, H]
  DocumentVisibility visibility;
  int heads, group, flat_heads, blocks;
  float scale;
};

constexpr int kStreamRows = 64;
constexpr int kSlots = 2;

template <int kHeadSize, int kWarpgroups>
struct ForwardTile {
  static constexpr int kE = kHeadSize;
  static constexpr int kGroups = kWarpgroups;
  // The copying warp belongs to a whole warpgroup if it must hand registers over.
  static constexpr bool kHandsOver = kGroups == 2;
  static constexpr int kThreads = kGroups * kWarpgroupThreads + (kHandsOver ? 128 : 32);
  static constexpr int kRows = kGroups * kOwnRows;

  using Rows = WordTile<kOwnRows, kE>;
  static constexpr int kWeightBytes = kOwnRows * kStreamRows * 4;
  static constexpr int kStreamedOffset = kGroups * Rows::kBytes;
  static constexpr int kWeightOffset = kStreamedOffset + 2 * kSlots * Rows::kBytes;
  static constexpr int kFactorOffset = kWeightOffset + kGroups * kWeightBytes;
  static constexpr int kBarrierOffset = kFactorOffset + 4 * kRows;
  static constexpr int kSharedBytes = kBarrierOffset + 64;
  static_assert(kSharedBytes <= 232448, "a block's shared memory");
  static constexpr int kBlocksPerSm = kSharedBytes <= 113 * 1024 ? 2 : 1;

  uint32_t base;
  __device__ uint32_t queries(int group) const { return base + group * Rows::kBytes; }
  __device__ uint32_t streamed(int operand, int slot) const {
    return base + kStreamedOffset + (2 * slot + operand) * Rows::kBytes;
  }
  __device__ uint32_t weights(int group) const {
    return base + kWeightOffset + group * kWeightBytes;
  }
  __device__ uint32_t factors(int group) const {
    return base + kFactorOffset + 4 * kOwnRows * group;
  }
  __device__ uint32_t own_full() const { return base + kBarrierOffset; }
  __device__ uint32_t full(int slot) const { return base + kBarrierOffset + 8 + 16 * slot; }
  __device__ uint32_t empty(int slot) const { return base + kBarrierOffset + 16 + 16 * slot; }
};

// The queries of a block and the blocks of keys that they attend to. Late queries, which are the
// longest blocks in causal attention, come first.
template <class Tile>
struct ForwardBlock {
  int batch, head, first;
  BlockRange keys;

  __device__ __forceinline__ explicit ForwardBlock(const ForwardArguments& p) {
    const int index = static_cast<int>(blockIdx.x), flat = index % p.flat_heads;
    batch = flat / p.heads;
    head = flat % p.heads;
    first = (p.blocks - 1 - index / p.flat_heads) * Tile::kRows;
    keys = key_blocks(p.visibility.in_row(batch), first,
                      min(first + Tile::kRows, p.visibility.sequence) - 1, kStreamRows);
  }
};

template <class Tile>
__device__ __forceinline__ void copy_ahead(const ForwardArguments& p, const Tile& tile) {
  const ForwardBlock<Tile> work(p);
  barrier_expect(tile.own_full(), Tile::kGroups * Tile::Rows::kBytes);
#pragma unroll
  for (int group = 0; group < Tile::kGroups; ++group)
    copy_in(tile.queries(group), &p.q, tile.own_full(), work.first + group * kOwnRows, work.head,
            work.batch);
  Ring<kSlots> ring;
  for (int n = work.keys.begin; n < work.keys.end; ++n, ring.advance()) {
    const uint32_t full = tile.full(ring.slot);
    barrier_wait(tile.empty(ring.slot), ring.parity ^ 1);
    barrier_expect(full, 2 * Tile::Rows::kBytes);
    copy_in(tile.streamed(0, ring.slot), &p.k, full, n * kStreamRows, work.head / p.group,
            work.batch);
    copy_in(tile.streamed(1, ring.slot), &p.v, full, n * kStreamRows, work.head / p.group,
            work.batch);
  }
}

// A row's statistics; the four threads of a quad hold its scores.
struct RowState {
  float top[2] = {kNoScore, kNoScore};
  float sum[2] = {0.0f, 0.0f};  // sum over this thread's scores

  // Converts the scores of rows g and g + 8 to weights. Returns the factors by which the earlier
  // sums shrink.
  __device__ __forceinline__ float2 weigh(float (&s)[kStreamRows / 2], float scale_log2) {
    float factor[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float highest = kNoScore;
#pragma unroll
      for (int j = 0; j < kStreamRows / 8; ++j)
        highest = fmaxf(highest, fmaxf(s[4 * j + 2 * r], s[4 * j + 2 * r + 1]));
      highest = fmaxf(highest, __shfl_xor_sync(0xffffffffu, highest, 1));
      highest = fmaxf(highest, __shfl_xor_sync(0xffffffffu, highest, 2));
      const float next = fmaxf(top[r], highest * scale_log2);
      const float base = next == kNoScore ? 0.0f : next;
      factor[r] = exp2_fast(top[r] - base);
      top[r] = next;
      float block_sum = 0.0f;
#pragma unroll
      for (int j = 0; j < kStreamRows / 8; ++j) {
#pragma unroll
        for (int c = 2 * r; c < 2 * r + 2; ++c) {
          s[4 * j + c] = exp2_fast(fmaf(s[4 * j + c], scale_log2, -base));
          block_sum += s[4 * j + c];
        }
      }
      sum[r] = sum[r] * factor[r] + block_sum;
    }
    return make_float2(factor[0], factor[1]);
  }
};

__device__ __forceinline__ void hide(float (&s)[kStreamRows / 2],
                                     const DocumentVisibility& v,
                                     int query,
                                     int key,
                                     const DepthOrder& at) {
  const int row = query + 16 * at.warp + at.group, column = key + 2 * at.place;
  const VisibleColumns visible[2] = {VisibleColumns::of<false>(v, row),
                                     VisibleColumns::of<false>(v, row + 8)};
#pragma unroll
  for (int j = 0; j < kStreamRows / 8; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (!visible[i / 2].contain(column + 8 * j + i % 2)) s[4 * j + i] = kNoScore;
  }
}

// Multiplies each column of x^T by its factor in shared memory.
template <int kE>
__device__ __forceinline__ void scale_columns(float (&x)[kE / 64][32],
                                              uint32_t factors,
                                              const DepthOrder& at) {
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const float2 factor = load_shared_float2(factors + 32 * j + 8 * at.place);
#pragma unroll
    for (int m = 0; m < kE / 64; ++m) {
      x[m][4 * j] *= factor.x;
      x[m][4 * j + 1] *= factor.y;
      x[m][4 * j + 2] *= factor.x;
      x[m][4 * j + 3] *= factor.y;
    }
  }
}

template <class Tile>
__device__ __forceinline__ void consume(const ForwardArguments& p, const Tile& tile) {
  constexpr int kE = Tile::kE;
  const ForwardBlock<Tile> work(p);
  const int group = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / kWarpgroupThreads, 0);
  const DepthOrder at(static_cast<int>(threadIdx.x) % kWarpgroupThreads);
  const int own = work.first + group * kOwnRows, sequence = p.visibility.sequence;
  const DocumentVisibility visibility = p.visibility.in_row(work.batch);
  // The factors of rows g and g + 8; the quad's first thread writes them.
  const uint32_t factors = tile.factors(group) + 4 * (16 * at.warp + at.group);
  RowState rows;
  float out[kE / 64][32] = {};
  barrier_wait(tile.own_full(), 0);
  Ring<kSlots> ring;
  for (int n = work.keys.begin; n < work.keys.end; ++n, ring.advance()) {
    const TileSight sight(visibility, own, kOwnRows, n * kStreamRows, kStreamRows);
    barrier_wait(tile.full(ring.slot), ring.parity);
    if (!sight.none) {
      float s[kStreamRows / 2];
      product_fence();
      score_product<kE, kStreamRows>(s, tile.queries(group), tile.streamed(0, ring.slot));
      product_commit();
      TransposedProduct<kE, kStreamRows> to_out;
      to_out.load(tile.streamed(1, ring.slot), at);
      product_wait<0>();
      pin(s);
      if (!sight.whole) hide(s, visibility, own, n * kStreamRows, at);
      const float2 factor = rows.weigh(s, p.scale * kLog2E);
      // Wait until the products of the previous step have read the weights, and all warps the
      // factors.
      named_sync(1 + group, kWarpgroupThreads);
      store_weights<kStreamRows>(tile.weights(group), s, at);
      if (at.place == 0) {
        store_word(factors, factor.x);
        store_word(factors + 32, factor.y);
      }
      shared_writes_to_async();
      named_sync(1 + group, kWarpgroupThreads);
      scale_columns<kE>(out, tile.factors(group), at);
      product_fence();
      to_out.run(out, tile.weights(group));
      product_wait<0>();
#pragma unroll
      for (int m = 0; m < kE / 64; ++m) pin(out[m]);
    }
    barrier_arrive(tile.empty(ring.slot));
  }
  const int64_t token = static_cast<int64_t>(work.batch) * sequence;
  named_sync(1 + group, kWarpgroupThreads);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float total = rows.sum[r];
    total += __shfl_xor_sync(0xffffffffu, total, 1);
    total += __shfl_xor_sync(0xffffffffu, total, 2);
    const int query = own + 16 * at.warp + at.group + 8 * r;
    if (at.place != 0) continue;
    store_word(factors + 32 * r, total > 0.0f ? 1.0f / total : 0.0f);
    if (query < sequence)
      p.lse[(token + query) * p.heads + work.head] =
          total > 0.0f ? rows.top[r] / kLog2E + logf(total) : kNoScore;
  }
  named_sync(1 + group, kWarpgroupThreads);
  scale_columns<kE>(out, tile.factors(group), at);
  store_transposed<kE>(p.o, token, work.head, own, sequence, out, at, [](int) { return 1.0f; });
}

template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    flash_attention_forward_tf32_kernel(const __grid_constant__ ForwardArguments p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) uint8_t shared[];
  const Tile tile{shared_address(shared)};
  if (threadIdx.x == 0) {
    barrier_init(tile.own_full(), 1);
    for (int slot = 0; slot < kSlots; ++slot) {
      barrier_init(tile.full(slot), 1);
      barrier_init(tile.empty(slot), Tile::kGroups * kWarpgroupThreads);
    }
    barrier_init_fence();
  }
  __syncthreads();
  grid_wait();
  if (threadIdx.x >= Tile::kGroups * kWarpgroupThreads) {
    if constexpr (Tile::kHandsOver) give_registers<24>();
    if (threadIdx.x == Tile::kGroups * kWarpgroupThreads) copy_ahead(p, tile);
  } else {
    if constexpr (Tile::kHandsOver) take_registers<240>();
    consume(p, tile);
  }
#else
  __trap();
#endif
}

template <class Tile>
cudaError_t launch(ForwardArguments p, cudaStream_t stream) {
  p.blocks = ceil_div(p.visibility.sequence, Tile::kRows);
  return launch_kernel(flash_attention_forward_tf32_kernel<Tile>, p.flat_heads * p.blocks,
                       Tile::kThreads, Tile::kSharedBytes, p, stream, kAfterTrigger);
}

// Two warpgroups share the tiles that they iterate over; if that leaves multiprocessors idle, a
// block has one warpgroup.
template <int kE>
cudaError_t launch_sized(const ForwardArguments& p, cudaStream_t stream) {
  const int pairs = p.flat_heads * ceil_div(p.visibility.sequence, 2 * kOwnRows);
  return pairs < multiprocessors() ? launch<ForwardTile<kE, 1>>(p, stream)
                                   : launch<ForwardTile<kE, 2>>(p, stream);
}

}  // namespace

cudaError_t launch_flash_attention_forward_tf32(const AttentionExtents& extents,
                                                const AttentionInput& q,
                                                const AttentionInput& k,
                                                const AttentionInput& v,
                                                const AttentionOutput& o,
                                                float* lse,
                                                cudaStream_t stream) {
  ForwardArguments p{};
  const bool mapped =
      encode_tokens(&p.q, q, extents, extents.heads, kOwnRows, kAllChunks, DType::kF32) &&
      encode_tokens(&p.k, k, extents, extents.kv_heads, kStreamRows, kAllChunks, DType::kF32) &&
      encode_tokens(&p.v, v, extents, extents.kv_heads, kStreamRows, kAllChunks, DType::kF32);
  if (!mapped) return cudaErrorInvalidValue;
  p.o = o;
  p.lse = lse;
  p.visibility = visibility_with_documents(extents);
  p.heads = static_cast<int>(extents.heads);
  p.group = static_cast<int>(extents.heads / extents.kv_heads);
  p.flat_heads = static_cast<int>(extents.batch * extents.heads);
  p.scale = extents.scale;
  return extents.head_size == 64 ? launch_sized<64>(p, stream) : launch_sized<128>(p, stream);
}

int64_t flash_attention_forward_tf32_pairs(const AttentionExtents& extents) {
  return visited_pairs(visibility_of(extents), kOwnRows, kStreamRows, extents.batch * extents.heads)
      .query_pass;
}

}  // namespace ridge::backends::cuda
