// SPDX-License-Identifier: Apache-2.0
// Kernels in which a block attends to a part of a token's keys for the heads that share them: the
// part of a block, and how the results of its warps or teams, and then of the blocks, are
// combined.
#pragma once

#include <algorithm>

#include "backends/cuda/kernels/cache/cached_attention.h"
#include "backends/cuda/kernels/cache/kv_cache.cuh"
#include "backends/cuda/kernels/softmax/softmax_online.cuh"
#include "backends/cuda/kernels/vector_io.cuh"

namespace ridge::backends::cuda {

inline constexpr int kPartThreads = 128;
inline constexpr int kMostGroup = 8;  // heads of a block

// Heads per block: those that share keys, at most kMostGroup. Only a few variants are compiled.
RIDGE_HOST_DEVICE inline int64_t heads_of_block(int64_t group) {
  return group <= 4 ? group : kMostGroup;
}

struct KeyRange {
  int64_t begin, end;   // positions of the keys
  uint32_t first_cell;  // cell of `begin`

  // A part has no more keys than the ring has cells.
  __device__ __forceinline__ uint32_t cell(int64_t key, uint32_t ring) const {
    const uint32_t cell = first_cell + static_cast<uint32_t>(key - begin);
    return cell < ring ? cell : cell - ring;
  }
};

// How many of the blocks along x have a part of the token's keys: a grid has as many as the graph's
// bound on positions may need.
__device__ __forceinline__ int splits_of(int32_t position, int64_t reach, int round_keys) {
  const int64_t keys = min(static_cast<int64_t>(position) + 1, reach);
  const int64_t rounds = (keys + round_keys - 1) / round_keys, blocks = gridDim.x;
  const int64_t per_split = (rounds + blocks - 1) / blocks;
  return static_cast<int>((rounds + per_split - 1) / per_split);
}

// Splits the keys as evenly as possible into multiples of a round of the block's teams.
__device__ __forceinline__ KeyRange
part_of(int32_t position, int64_t reach, uint32_t ring, int split, int splits, int round_keys) {
  const int64_t begin = position + 1 > reach ? position + 1 - reach : 0;
  const int64_t keys = position + 1 - begin;
  const int64_t rounds = (keys + round_keys - 1) / round_keys;
  const int64_t per_split = (rounds + splits - 1) / splits * round_keys;
  const int64_t from = begin + split * per_split;
  return {from, min(from + per_split, static_cast<int64_t>(position) + 1),
          static_cast<uint32_t>(from) % ring};
}

// The results of a part for the block that combines the parts: for each head of the group its
// maximum, its sum and its weighted values relative to the maximum.
struct PartLayout {
  float* data;
  int64_t splits, head_size, group;
  __device__ __forceinline__ float* head(int64_t split, int64_t g) const {
    return data + (split * group + g) * (head_size + 4);
  }
};

// The factors with which separately computed parts of a head enter the combined result.
template <int kGroup>
struct Shares {
  float of[kGroup][kLanes];
  float top[kGroup];
  float sum[kGroup];
};

// One warp per head, and one lane per part (at most 32); `top` and `sum` return a part's maximum
// and sum.
template <int kGroup, typename Top, typename Total>
__device__ __forceinline__ void share_out(Shares<kGroup>& shares,
                                          int64_t heads,
                                          int64_t count,
                                          const Top& top,
                                          const Total& sum) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  for (int64_t g = static_cast<int>(threadIdx.x) / kLanes; g < heads; g += blockDim.x / kLanes) {
    const float own = lane < count ? top(g, lane) : kMinusInfinity;
    gather_lanes();
    const float all = reduce_lanes(own, Max{});
    const float share = exp2f(own - exponent_base(all));
    const float total = reduce_lanes(lane < count ? share * sum(g, lane) : 0.0f, Sum{});
    shares.of[g][lane] = share;
    if (lane == 0) {
      shares.top[g] = all;
      shares.sum[g] = total;
    }
  }
  __syncthreads();
}

// Each thread combines four neighbouring elements of a head at a time. It sums in the order of the
// parts, which `load` returns; `store` receives (g, e, sum).
template <int kGroup, typename Load, typename Store>
__device__ __forceinline__ void mix_shares(const Shares<kGroup>& shares,
                                           int64_t heads,
                                           int64_t head_size,
                                           int count,
                                           const Load& load,
                                           const Store& store) {
  const int quads = static_cast<int>(head_size / 4);
  for (int i = static_cast<int>(threadIdx.x); i < heads * quads;
       i += static_cast<int>(blockDim.x)) {
    const int g = i / quads, e = (i - g * quads) * 4;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 16
    for (int part = 0; part < count; ++part) {
      const float4 x = load(g, part, e);
      const float share = shares.of[g][part];
      sum.x = fmaf(share, x.x, sum.x);
      sum.y = fmaf(share, x.y, sum.y);
      sum.z = fmaf(share, x.z, sum.z);
      sum.w = fmaf(share, x.w, sum.w);
    }
    store(g, e, sum);
  }
}

template <typename T>
struct HeadOutput {
  T* data;
  int64_t head_stride;

  __device__ __forceinline__ void put(int64_t g, int64_t e, float4 mix, float sum) const {
    T* to = data + g * head_stride + e;
    to[0] = from_float<T>(mix.x / sum);
    to[1] = from_float<T>(mix.y / sum);
    to[2] = from_float<T>(mix.z / sum);
    to[3] = from_float<T>(mix.w / sum);
  }
};

// How many blocks of kGroup heads that share a KV head a token has.
template <int kGroup, typename T, typename C>
RIDGE_HOST_DEVICE inline int64_t head_blocks(const CachedAttention<T, C>& p) {
  const int64_t group = p.heads / p.keys.kv_heads;
  return p.keys.kv_heads * ((group + kGroup - 1) / kGroup);
}

// The heads of a token's block, which head_blocks counts.
template <int kGroup>
struct BlockHeads {
  int64_t kv_head, first, count;
  template <typename T, typename C>
  __device__ __forceinline__ BlockHeads(const CachedAttention<T, C>& p, unsigned index) {
    const int64_t group = p.heads / p.keys.kv_heads, head_groups = (group + kGroup - 1) / kGroup;
    kv_head = index / head_groups;
    const int64_t begin = index % head_groups * kGroup;
    first = kv_head * group + begin;
    count = min(group - begin, static_cast<int64_t>(kGroup));
  }
};

// Clears the output of a block's heads for a token that is padding.
template <typename T, typename C, int kGroup>
__device__ __forceinline__ void clear_heads(const CachedAttention<T, C>& p,
                                            const BlockHeads<kGroup>& block,
                                            int64_t token) {
  const int64_t head_size = p.keys.head_size;
  T* o = p.o.data + token * p.o.token_stride + block.first * p.o.head_stride;
  for (int64_t i = threadIdx.x; i < block.count * head_size; i += blockDim.x)
    o[i / head_size * p.o.head_stride + i % head_size] = from_float<T>(0.0f);
}

// Whether the token's tile of kCachedAttentionTileTokens tokens has another token of its sequence.
// Called by all threads of a block.
__device__ __forceinline__ bool has_company(const CacheCells& cells, int64_t token) {
  static_assert(kPartThreads >= kCachedAttentionTileTokens);
  const int64_t other =
      token / kCachedAttentionTileTokens * kCachedAttentionTileTokens + threadIdx.x;
  const bool is_company = threadIdx.x < kCachedAttentionTileTokens && other < cells.tokens &&
                          other != token && live_position(cells, other) >= 0 &&
                          cells.slots[other] == cells.slots[token];
  return __syncthreads_or(is_company) != 0;
}

// The blocks, of each group of heads, that share a launch's lone tokens: those without another
// token of their sequence in their tile.
inline int64_t lone_blocks(const CacheCells& cells) {
  return std::min(cells.slot_count, cells.tokens);
}

// Calls attend(token, position) for the lone tokens of a slot, or for one token where there are
// more slots than tokens: most of many tokens are of prompts and not lone. Called by all threads of
// a block, at most kMostLoneThreads.
inline constexpr int kMostLoneThreads = 256;
template <typename Attend>
__device__ __forceinline__ void visit_lone_tokens(const CacheCells& cells,
                                                  int64_t block,
                                                  const Attend& attend) {
  constexpr int kTile = static_cast<int>(kCachedAttentionTileTokens), kAtOnce = 16;
  if (cells.slot_count >= cells.tokens) {
    const int32_t position = live_position(cells, block);
    if (position >= 0 && !has_company(cells, block)) attend(block, position);
    return;
  }
  __shared__ int64_t found[kMostLoneThreads];
  __shared__ int count;
  // Each thread searches a tile.
  for (int64_t first = 0; first < cells.tokens; first += int64_t{kTile} * blockDim.x) {
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    const int64_t begin = first + int64_t{kTile} * threadIdx.x,
                  end = min(begin + kTile, cells.tokens);
    int64_t last = 0;
    int own = 0;
    for (int64_t some = begin; some < end && own < 2; some += kAtOnce) {
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int64_t token = min(some + i, end - 1);
        const bool is_in_slot = cells.slots[token] == block && live_position(cells, token) >= 0;
        if (some + i < end && is_in_slot) ++own, last = token;
      }
    }
    if (own == 1) found[atomicAdd(&count, 1)] = last;
    __syncthreads();
    for (int i = 0; i < count; ++i) {
      attend(found[i], live_position(cells, found[i]));
      __syncthreads();  // the next token takes the same shared memory
    }
    __syncthreads();
  }
}

// The results of a block's ways through its keys: of each head its maximum, its sum and its
// weighted values relative to the maximum.
template <int kGroup, int kWays, int kElementsOfHead>
struct Merged {
  float top[kGroup][kWays];
  float sum[kGroup][kWays];
  float mix[kGroup][kWays][kElementsOfHead];
};

template <int kGroup>
struct PartScratch {
  Shares<kGroup> shares;
  bool is_last;
};

// Combines the ways of a block after a barrier, and stores the result: to the output if the keys
// are not split, else to the workspace, from where the last block of a token's heads combines the
// parts.
template <typename T, typename C, int kGroup, int kWays, int kWidth>
__device__ __forceinline__ void store_part(const CachedAttention<T, C>& p,
                                           const Merged<kGroup, kWays, kWidth>& merged,
                                           PartScratch<kGroup>& scratch,
                                           const BlockHeads<kGroup>& block,
                                           int64_t token,
                                           int split,
                                           int splits) {
  auto& shares = scratch.shares;
  auto& is_last = scratch.is_last;
  const int64_t heads = block.count, head_size = p.keys.head_size;
  const HeadOutput<T> o{p.o.data + token * p.o.token_stride + block.first * p.o.head_stride,
                        p.o.head_stride};
  share_out(
      shares, heads, kWays, [&](int64_t g, int w) { return merged.top[g][w]; },
      [&](int64_t g, int w) { return merged.sum[g][w]; });
  auto of_way = [&](int g, int w, int e) {
    return *reinterpret_cast<const float4*>(&merged.mix[g][w][e]);
  };
  if (splits == 1) {
    mix_shares(shares, heads, head_size, kWays, of_way,
               [&](int g, int e, float4 mix) { o.put(g, e, mix, shares.sum[g]); });
    return;
  }
  const int64_t site = token * gridDim.y + blockIdx.y;
  const int64_t kept = heads_of_block(p.heads / p.keys.kv_heads);
  const PartLayout parts{p.workspace + site * gridDim.x * kept * (head_size + 4), splits, head_size,
                         kept};
  mix_shares(shares, heads, head_size, kWays, of_way, [&](int g, int e, float4 mix) {
    float* to = parts.head(split, g);
    __stcg(reinterpret_cast<float4*>(to + 4 + e), mix);
    if (e == 0) __stcg(reinterpret_cast<float2*>(to), make_float2(shares.top[g], shares.sum[g]));
  });
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) is_last = atomicAdd(p.tickets + site, 1) == splits - 1;
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  if (threadIdx.x == 0) p.tickets[site] = 0;
  share_out(
      shares, heads, splits, [&](int64_t g, int s) { return __ldcg(parts.head(s, g)); },
      [&](int64_t g, int s) { return __ldcg(parts.head(s, g) + 1); });
  mix_shares(
      shares, heads, head_size, splits,
      [&](int g, int s, int e) {
        return __ldcg(reinterpret_cast<const float4*>(parts.head(s, g) + 4 + e));
      },
      [&](int g, int e, float4 mix) { o.put(g, e, mix, shares.sum[g]); });
}

}  // namespace ridge::backends::cuda
