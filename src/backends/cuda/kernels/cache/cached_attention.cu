// SPDX-License-Identifier: Apache-2.0
// Attention over a KV cache for a few tokens: the keys of each token are split into parts, one per
// block, and the last block of a token's head combines the parts. Heads that share keys read them
// once. Also for the single tokens of sequences among many tokens.
#include "backends/cuda/kernels/cache/cached_attention.h"

#include <algorithm>
#include <type_traits>

#include "backends/cuda/kernels/cache/kv_cache.cuh"
#include "backends/cuda/kernels/early_start.cuh"
#include "backends/cuda/kernels/softmax/softmax_online.cuh"

namespace ridge::backends::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kElements = 8;  // elements of a head per lane
constexpr int kUnroll = 4;    // keys in flight per team
constexpr int kMostGroup = 8;

// A team of kTeam lanes holds a head; a block's teams process different keys in parallel.
template <int kTeam>
inline constexpr int kTeams = kThreads / kTeam;

template <int kGroup>
struct Softmax {
  float top[kGroup];
  float sum[kGroup];
  float mix[kGroup][kElements];
};

struct Part {
  int64_t begin, end;   // positions of the keys
  uint32_t first_cell;  // cell of `begin`

  // A part has no more keys than the ring has cells.
  __device__ __forceinline__ uint32_t cell(int64_t key, uint32_t ring) const {
    const uint32_t cell = first_cell + static_cast<uint32_t>(key - begin);
    return cell < ring ? cell : cell - ring;
  }
};

// Splits the keys as evenly as possible into multiples of a round of the block's teams.
__device__ __forceinline__ Part
part_of(int32_t position, int64_t reach, uint32_t ring, int split, int splits, int round_keys) {
  const int64_t begin = position + 1 > reach ? position + 1 - reach : 0;
  const int64_t keys = position + 1 - begin;
  const int64_t rounds = (keys + round_keys - 1) / round_keys;
  const int64_t per_split = (rounds + splits - 1) / splits * round_keys;
  const int64_t from = begin + split * per_split;
  return {from, min(from + per_split, static_cast<int64_t>(position) + 1),
          static_cast<uint32_t>(from) % ring};
}

template <typename T>
struct Keys {
  Packed<T, kElements> k[kUnroll], v[kUnroll];
};

// Loads a part's keys and values for the round that starts at position `base`.
template <typename T, int kTeam>
__device__ __forceinline__ void load_keys(const CachedAttention<T>& p,
                                          const SlotCells& cells,
                                          int64_t base,
                                          Part part,
                                          int64_t kv_head,
                                          Keys<T>& keys) {
  const int team = static_cast<int>(threadIdx.x) / kTeam,
            lane = static_cast<int>(threadIdx.x) % kTeam;
  const int64_t width = p.keys.kv_heads * p.keys.head_size;
  const bool is_inside = lane * kElements < p.keys.head_size;
  const int64_t column = kv_head * p.keys.head_size + (is_inside ? lane * kElements : 0);
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const int64_t key = min(base + u * kTeams<kTeam> + team, part.end - 1);
    const int64_t at = cells.row(part.cell(key, cells.ring)) * width + column;
    keys.k[u] = load_packed<kElements>(p.keys.data + at);
    keys.v[u] = load_packed<kElements>(p.values.data + at);
  }
}

template <typename T, int kTeam, int kGroup>
__device__ __forceinline__ void add_keys(const Keys<T>& keys,
                                         int64_t base,
                                         Part part,
                                         const float (&q)[kGroup][kElements],
                                         Softmax<kGroup>& softmax) {
  const int team = static_cast<int>(threadIdx.x) / kTeam;
  gather_lanes();
  float score[kUnroll][kGroup];
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    float x[kElements];
    unpack(keys.k[u], x);
#pragma unroll
    for (int g = 0; g < kGroup; ++g) {
      float sum = 0.0f;
#pragma unroll
      for (int i = 0; i < kElements; ++i) sum = fmaf(q[g][i], x[i], sum);
#pragma unroll
      for (int mask = kTeam / 2; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
      score[u][g] = base + u * kTeams<kTeam> + team < part.end ? sum : kMinusInfinity;
    }
  }
  float weight[kUnroll][kGroup];
#pragma unroll
  for (int g = 0; g < kGroup; ++g) {
    float top = softmax.top[g];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) top = fmaxf(top, score[u][g]);
    const float from = exponent_base(top), kept = exp2_for<T>(softmax.top[g] - from);
    softmax.top[g] = top;
    softmax.sum[g] *= kept;
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      weight[u][g] = exp2_for<T>(score[u][g] - from);
      softmax.sum[g] += weight[u][g];
    }
#pragma unroll
    for (int i = 0; i < kElements; ++i) softmax.mix[g][i] *= kept;
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    float x[kElements];
    unpack(keys.v[u], x);
#pragma unroll
    for (int g = 0; g < kGroup; ++g)
#pragma unroll
      for (int i = 0; i < kElements; ++i)
        softmax.mix[g][i] = fmaf(weight[u][g], x[i], softmax.mix[g][i]);
  }
}

// If a block processes all keys of its token, it prefetches the next keys while it uses the current
// ones: with many tokens the memory must never be idle.
template <typename T, int kTeam, int kGroup, bool kWhole>
__device__ __forceinline__ void walk_keys(const CachedAttention<T>& p,
                                          const SlotCells& cells,
                                          Part part,
                                          int64_t kv_head,
                                          const float (&q)[kGroup][kElements],
                                          Softmax<kGroup>& softmax) {
  constexpr int kRound = kTeams<kTeam> * kUnroll;
  Keys<T> keys;
  if constexpr (kWhole) {
    Keys<T> next;
    load_keys<T, kTeam>(p, cells, part.begin, part, kv_head, next);
    for (int64_t base = part.begin; base < part.end; base += kRound) {
      keys = next;
      if (base + kRound < part.end)
        load_keys<T, kTeam>(p, cells, base + kRound, part, kv_head, next);
      add_keys<T, kTeam, kGroup>(keys, base, part, q, softmax);
    }
  } else {
    for (int64_t base = part.begin; base < part.end; base += kRound) {
      load_keys<T, kTeam>(p, cells, base, part, kv_head, keys);
      add_keys<T, kTeam, kGroup>(keys, base, part, q, softmax);
    }
  }
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

template <int kTeam, int kGroup>
struct Merged {
  float top[kGroup][kTeams<kTeam>];
  float sum[kGroup][kTeams<kTeam>];
  float mix[kGroup][kTeams<kTeam>][kTeam * kElements];
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
  for (int64_t g = static_cast<int>(threadIdx.x) / kLanes; g < heads; g += kThreads / kLanes) {
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
  for (int i = static_cast<int>(threadIdx.x); i < heads * quads; i += kThreads) {
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

// The shared memory of a block.
template <int kTeam, int kGroup>
struct Scratch {
  Merged<kTeam, kGroup> merged;
  Shares<kGroup> shares;
  bool is_last;
};

// The heads of a block: blockIdx.y counts kGroup at a time of those that share a KV head.
template <int kGroup>
struct BlockHeads {
  int64_t kv_head, first, count;
  template <typename T>
  __device__ __forceinline__ explicit BlockHeads(const CachedAttention<T>& p) {
    const int64_t group = p.heads / p.keys.kv_heads, head_groups = (group + kGroup - 1) / kGroup;
    kv_head = blockIdx.y / head_groups;
    const int64_t begin = blockIdx.y % head_groups * kGroup;
    first = kv_head * group + begin;
    count = min(group - begin, static_cast<int64_t>(kGroup));
  }
};

// One token's heads over one part of its keys.
template <typename T, int kTeam, int kGroup, bool kWhole>
__device__ __forceinline__ void attend(const CachedAttention<T>& p,
                                       Scratch<kTeam, kGroup>& scratch,
                                       const BlockHeads<kGroup>& block,
                                       int64_t token,
                                       int32_t position,
                                       int split,
                                       int splits) {
  auto& [merged, shares, is_last] = scratch;
  const int64_t heads = block.count, head = block.first, head_size = p.keys.head_size;
  const HeadOutput<T> o{p.o.data + token * p.o.token_stride + head * p.o.head_stride,
                        p.o.head_stride};
  const int team = static_cast<int>(threadIdx.x) / kTeam,
            lane = static_cast<int>(threadIdx.x) % kTeam;
  const bool is_inside = lane * kElements < head_size;
  float q[kGroup][kElements] = {};
  const float to_log2 = p.scale * kLog2OfE;
#pragma unroll
  for (int g = 0; g < kGroup; ++g)
    if (g < heads && is_inside)
#pragma unroll
      for (int i = 0; i < kElements; ++i)
        q[g][i] = to_log2 * to_float(p.q.data[token * p.q.token_stride +
                                              (head + g) * p.q.head_stride + lane * kElements + i]);
  Softmax<kGroup> softmax;
#pragma unroll
  for (int g = 0; g < kGroup; ++g) {
    softmax.top[g] = kMinusInfinity;
    softmax.sum[g] = 0.0f;
#pragma unroll
    for (int i = 0; i < kElements; ++i) softmax.mix[g][i] = 0.0f;
  }
  const SlotCells cells(p.cells, p.cells.slots[token]);
  const Part part = part_of(position, p.reach, cells.ring, split, splits, kTeams<kTeam> * kUnroll);
  walk_keys<T, kTeam, kGroup, kWhole>(p, cells, part, block.kv_head, q, softmax);
#pragma unroll
  for (int g = 0; g < kGroup; ++g) {
    merged.top[g][team] = softmax.top[g];
    merged.sum[g][team] = softmax.sum[g];
#pragma unroll
    for (int i = 0; i < kElements; ++i)
      merged.mix[g][team][lane * kElements + i] = softmax.mix[g][i];
  }
  __syncthreads();
  share_out(
      shares, heads, kTeams<kTeam>, [&](int64_t g, int t) { return merged.top[g][t]; },
      [&](int64_t g, int t) { return merged.sum[g][t]; });
  auto of_team = [&](int g, int t, int e) {
    return *reinterpret_cast<const float4*>(&merged.mix[g][t][e]);
  };
  if (splits == 1) {
    mix_shares(shares, heads, head_size, kTeams<kTeam>, of_team,
               [&](int g, int e, float4 mix) { o.put(g, e, mix, shares.sum[g]); });
    return;
  }
  const int64_t site = token * gridDim.y + blockIdx.y;
  const PartLayout parts{p.workspace + site * splits * kGroup * (head_size + 4), splits, head_size,
                         kGroup};
  mix_shares(shares, heads, head_size, kTeams<kTeam>, of_team, [&](int g, int e, float4 mix) {
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

// Mapping: one block per part of the keys (x), per kGroup of the heads that share a KV head (y),
// and per token (z). Bound: memory, the keys and values that the tokens attend to; with few tokens,
// latency.
template <typename T, int kTeam, int kGroup, bool kWhole>
__global__ void __launch_bounds__(kThreads)
    cached_attention_kernel(const __grid_constant__ CachedAttention<T> p) {
  __shared__ __align__(16) Scratch<kTeam, kGroup> scratch;
  let_next_start();
  wait_for_grids();
  const BlockHeads<kGroup> block(p);
  const int64_t token = blockIdx.z, head_size = p.keys.head_size;
  if (blockIdx.x + blockIdx.y + blockIdx.z == 0) note_bad_cells(p.cells);
  const int32_t position = live_position(p.cells, token);
  if (position < 0) {
    T* o = p.o.data + token * p.o.token_stride + block.first * p.o.head_stride;
    for (int64_t i = threadIdx.x; blockIdx.x == 0 && i < block.count * head_size; i += kThreads)
      o[i / head_size * p.o.head_stride + i % head_size] = from_float<T>(0.0f);
    return;
  }
  attend<T, kTeam, kGroup, kWhole>(p, scratch, block, token, position, static_cast<int>(blockIdx.x),
                                   static_cast<int>(gridDim.x));
}

// Tokens that share their tile (64 tokens) with no other token of their sequence, as those of
// sequences that generate do beside a prompt; flash_attention_cached_kernel leaves them out.
// Mapping: one block per kGroup heads (y) and kLoneTokens tokens (z). Bound: as above; a block
// without such tokens ends after one read of its tile's slots.
constexpr int kLoneTokens = 4;
template <int kTeam, int kGroup, bool kWhole>
__global__ void __launch_bounds__(kThreads)
    lone_tokens_kernel(const __grid_constant__ CachedAttention<uint16_t> p) {
  __shared__ __align__(16) Scratch<kTeam, kGroup> scratch;
  __shared__ bool has_company[kLoneTokens];
  __shared__ int32_t slots[kCachedAttentionTileTokens];  // -1: padding
  __shared__ int32_t positions[kCachedAttentionTileTokens];
  static_assert(kCachedAttentionTileTokens % kLoneTokens == 0);
  static_assert(kThreads >= kCachedAttentionTileTokens);
  let_next_start();
  wait_for_grids();
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t first = blockIdx.z * int64_t{kLoneTokens},
                tile = first / kCachedAttentionTileTokens * kCachedAttentionTileTokens;
  const int own = static_cast<int>(first - tile);
  if (thread < kCachedAttentionTileTokens) {
    const int64_t token = tile + thread;
    const int32_t position = token < p.cells.tokens ? live_position(p.cells, token) : -1;
    positions[thread] = position;
    slots[thread] = position < 0 ? -1 : p.cells.slots[token];
  }
  if (thread < kLoneTokens) has_company[thread] = false;
  __syncthreads();
  if (thread < kCachedAttentionTileTokens) {
#pragma unroll
    for (int t = 0; t < kLoneTokens; ++t)
      if (thread != own + t && slots[thread] == slots[own + t]) has_company[t] = true;
  }
  __syncthreads();
  const BlockHeads<kGroup> block(p);
  for (int t = 0; t < kLoneTokens; ++t) {
    if (has_company[t] || positions[own + t] < 0) continue;
    attend<uint16_t, kTeam, kGroup, kWhole>(p, scratch, block, first + t, positions[own + t], 0, 1);
    __syncthreads();
  }
}

// Lanes that hold a head. Only a few variants are compiled.
int64_t team_of(int64_t head_size) {
  for (int64_t team : {4, 8, 16})
    if (head_size <= team * kElements) return team;
  return 32;
}

// Heads per block: those that share keys, at most kMostGroup. Only a few variants are compiled.
int64_t heads_of_block(int64_t group) {
  if (group <= 4) return group;
  return kMostGroup;
}

template <typename T, int kTeam, int kGroup>
cudaError_t launch_group(const CachedAttention<T>& call, cudaStream_t stream) {
  const int64_t group = call.heads / call.keys.kv_heads,
                head_groups = (group + kGroup - 1) / kGroup;
  const dim3 grid(static_cast<unsigned>(cached_attention_splits(
                      call.cells.tokens, call.keys.kv_heads, call.keys.head_size, call.reach)),
                  static_cast<unsigned>(call.keys.kv_heads * head_groups),
                  static_cast<unsigned>(call.cells.tokens));
  // The prefetching variant needs spare registers, and only pays off if the keys are not split.
  if constexpr (kGroup <= 2 && sizeof(T) == 2)
    if (grid.x == 1)
      return launch_early(cached_attention_kernel<T, kTeam, kGroup, true>, grid, kThreads, 0,
                          stream, call);
  return launch_early(cached_attention_kernel<T, kTeam, kGroup, false>, grid, kThreads, 0, stream,
                      call);
}

template <int kTeam, int kGroup>
cudaError_t launch_lone_group(const CachedAttention<uint16_t>& call, cudaStream_t stream) {
  const int64_t group = call.heads / call.keys.kv_heads,
                head_groups = (group + kGroup - 1) / kGroup;
  const dim3 grid(1, static_cast<unsigned>(call.keys.kv_heads * head_groups),
                  static_cast<unsigned>((call.cells.tokens + kLoneTokens - 1) / kLoneTokens));
  return launch_early(lone_tokens_kernel<kTeam, kGroup, (kGroup <= 2)>, grid, kThreads, 0, stream,
                      call);
}

// Calls launch(integral constant) for the lanes that hold a head.
template <typename Launch>
cudaError_t with_team(int64_t head_size, const Launch& launch) {
  switch (team_of(head_size)) {
    case 4:
      return launch(std::integral_constant<int, 4>());
    case 8:
      return launch(std::integral_constant<int, 8>());
    case 16:
      return launch(std::integral_constant<int, 16>());
    default:
      return launch(std::integral_constant<int, 32>());
  }
}
// The same for the heads of a block.
template <typename Launch>
cudaError_t with_group(int64_t group, const Launch& launch) {
  switch (heads_of_block(group)) {
    case 1:
      return launch(std::integral_constant<int, 1>());
    case 2:
      return launch(std::integral_constant<int, 2>());
    case 3:
      return launch(std::integral_constant<int, 3>());
    case 4:
      return launch(std::integral_constant<int, 4>());
    default:
      return launch(std::integral_constant<int, kMostGroup>());
  }
}

template <typename T>
bool is_valid(const CachedAttention<T>& call) {
  const int64_t head_size = call.keys.head_size;
  return head_size % kElements == 0 && head_size <= kCachedAttentionMostHeadSize && call.reach >= 1;
}

}  // namespace

int64_t cached_attention_round_keys(int64_t head_size) {
  return kThreads / team_of(head_size) * kUnroll;
}

int64_t cached_attention_splits(int64_t tokens,
                                int64_t kv_heads,
                                int64_t head_size,
                                int64_t reach) {
  // Four blocks for each of 132 multiprocessors, but no part shorter than a round of its teams.
  constexpr int64_t kBlocks = 528, kLeastKeys = 32, kMostSplits = kLanes;
  const int64_t round_keys = cached_attention_round_keys(head_size);
  const int64_t splits = kBlocks / std::max<int64_t>(tokens * kv_heads, 1);
  return std::clamp<int64_t>(std::min(splits, reach / std::max(round_keys, kLeastKeys)), 1,
                             kMostSplits);
}

int64_t cached_attention_tickets(int64_t tokens, int64_t heads, int64_t kv_heads) {
  const int64_t group = heads / kv_heads, block = heads_of_block(group);
  return tokens * kv_heads * ((group + block - 1) / block);
}

int64_t cached_attention_workspace_bytes(int64_t tokens,
                                         int64_t heads,
                                         int64_t kv_heads,
                                         int64_t head_size,
                                         int64_t reach) {
  const int64_t splits = cached_attention_splits(tokens, kv_heads, head_size, reach);
  if (splits == 1) return 0;
  return cached_attention_tickets(tokens, heads, kv_heads) * heads_of_block(heads / kv_heads) *
         splits * (head_size + 4) * static_cast<int64_t>(sizeof(float));
}

template <typename T>
cudaError_t launch_cached_attention(const CachedAttention<T>& call, cudaStream_t stream) {
  if (!is_valid(call)) return cudaErrorInvalidValue;
  if (call.cells.tokens == 0) return cudaSuccess;
  return with_team(call.keys.head_size, [&](auto team) {
    return with_group(call.heads / call.keys.kv_heads, [&](auto group) {
      return launch_group<T, decltype(team)::value, decltype(group)::value>(call, stream);
    });
  });
}

cudaError_t launch_cached_attention_of_lone_tokens(const CachedAttention<uint16_t>& call,
                                                   cudaStream_t stream) {
  if (!is_valid(call)) return cudaErrorInvalidValue;
  if (call.cells.tokens == 0) return cudaSuccess;
  return with_team(call.keys.head_size, [&](auto team) {
    return with_group(call.heads / call.keys.kv_heads, [&](auto group) {
      return launch_lone_group<decltype(team)::value, decltype(group)::value>(call, stream);
    });
  });
}

template cudaError_t launch_cached_attention(const CachedAttention<float>&, cudaStream_t);
template cudaError_t launch_cached_attention(const CachedAttention<uint16_t>&, cudaStream_t);

}  // namespace ridge::backends::cuda
