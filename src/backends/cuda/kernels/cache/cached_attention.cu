// SPDX-License-Identifier: Apache-2.0
// Attention over a KV cache for a few tokens: the keys of each token are split into parts, one per
// block, and the last block of a token's head combines the parts. Heads that share keys read them
// once. Also for the single tokens of sequences among many tokens.
#include "backends/cuda/kernels/cache/cached_attention.h"

#include <algorithm>
#include <type_traits>

#include "backends/cuda/kernels/cache/cached_parts.cuh"
#include "backends/cuda/kernels/cache/kv_cache.cuh"
#include "backends/cuda/kernels/cache/quantize.cuh"
#include "backends/cuda/kernels/early_start.cuh"

namespace ridge::backends::cuda {
namespace {

constexpr int kThreads = kPartThreads;
constexpr int kUnroll = 4;  // keys in flight per team
// Elements of a head per lane: quants fill its vectors too.
template <typename C>
inline constexpr int kElements = sizeof(C) == 1 ? 16 : 8;

// A team of kTeam lanes holds a head; a block's teams process different keys in parallel.
template <int kTeam>
inline constexpr int kTeams = kThreads / kTeam;

template <int kGroup, int kWidth>
struct Softmax {
  float top[kGroup];
  float sum[kGroup];
  float mix[kGroup][kWidth];
};

template <typename C>
struct Keys {
  Packed<C, kElements<C>> k[kUnroll], v[kUnroll];
  float k_scale[kUnroll], v_scale[kUnroll];  // only of quants
};

// Under the exponent of 2^23, the bits of a byte make 2^23 and the byte, here the quant and 128.
__device__ __forceinline__ void unpack(const Packed<int8_t, 16>& vector, float (&values)[16]) {
  uint32_t words[4];
  split_word(vector.words[0], words);
#pragma unroll
  for (int i = 0; i < 16; ++i)
    values[i] = __uint_as_float(__byte_perm(words[i / 4] ^ 0x80808080u, 0x4b000000u,
                                            0x7440 | static_cast<uint32_t>(i % 4))) -
                8388736.0f;
}

// Adds the products of the bytes of two words.
__device__ __forceinline__ int add_products(uint32_t a, uint32_t b, int sum) {
#ifdef __HIP__
  for (int shift = 0; shift < 32; shift += 8)
    sum += static_cast<int8_t>(a >> shift) * static_cast<int8_t>(b >> shift);
  return sum;
#else
  return __dp4a(static_cast<int>(a), static_cast<int>(b), sum);
#endif
}

// A lane's elements of a query, times the scale of scores.
template <typename C>
struct Query {
  float elements[kElements<C>] = {};

  template <int kTeam, typename Load>
  __device__ __forceinline__ void fill(const Load& load) {
#pragma unroll
    for (int i = 0; i < kElements<C>; ++i) elements[i] = load(i);
  }
  __device__ __forceinline__ float products(const Packed<C, kElements<C>>& key) const {
    float x[kElements<C>], sum = 0.0f;
    unpack(key, x);
#pragma unroll
    for (int i = 0; i < kElements<C>; ++i) sum = fmaf(elements[i], x[i], sum);
    return sum;
  }
  __device__ __forceinline__ float score(float sum) const { return sum; }
};

// For keys in i8: multiples of a 16,256th of the head's largest magnitude, in two signed bytes.
template <>
struct Query<int8_t> {
  uint32_t high[4] = {}, low[4] = {};
  float step = 0.0f;

  template <int kTeam, typename Load>
  __device__ __forceinline__ void fill(const Load& load) {
    constexpr float kMost = 127 * 128;
    float x[16], most = 0.0f;
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      x[i] = load(i);
      most = fmaxf(most, magnitude(x[i]));
    }
#pragma unroll
    for (int mask = kTeam / 2; mask > 0; mask /= 2) most = fmaxf(most, shuffle_xor(most, mask));
    step = most / kMost;  // infinite, and scores are NaN, if an element is not finite
    const float inverse = most > 0.0f ? kMost / most : 0.0f;
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const int whole = __float2int_rn(x[i] * inverse), upper = (whole + 64) >> 7;
      high[i / 4] |= static_cast<uint32_t>(upper & 0xff) << i % 4 * 8;
      low[i / 4] |= static_cast<uint32_t>((whole - upper * 128) & 0xff) << i % 4 * 8;
    }
  }
  __device__ __forceinline__ int products(const Packed<int8_t, 16>& key) const {
    uint32_t words[4];
    split_word(key.words[0], words);
    int upper = 0, lower = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      upper = add_products(high[i], words[i], upper);
      lower = add_products(low[i], words[i], lower);
    }
    return upper * 128 + lower;  // less than 2^30 for 256 elements
  }
  __device__ __forceinline__ float score(int sum) const { return step * static_cast<float>(sum); }
};

// Loads a part's keys and values for the round that starts at position `base`.
template <typename T, typename C, int kTeam>
__device__ __forceinline__ void load_keys(const CachedAttention<T, C>& p,
                                          const SlotCells& cells,
                                          int64_t base,
                                          KeyRange part,
                                          int64_t kv_head,
                                          Keys<C>& keys) {
  const int team = static_cast<int>(threadIdx.x) / kTeam,
            lane = static_cast<int>(threadIdx.x) % kTeam;
  const int64_t width = p.keys.kv_heads * p.keys.head_size;
  constexpr int kWidth = kElements<C>;
  const bool is_inside = lane * kWidth < p.keys.head_size;
  const int64_t column = kv_head * p.keys.head_size + (is_inside ? lane * kWidth : 0);
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const int64_t key = min(base + u * kTeams<kTeam> + team, part.end - 1);
    const CellPlace place = cells.place(part.cell(key, cells.ring));
    const int64_t at = place.row() * width + column;
    keys.k[u] = load_packed<kWidth>(p.keys.data + at);
    keys.v[u] = load_packed<kWidth>(p.values.data + at);
    if constexpr (sizeof(C) == 1) {
      const int64_t scale = place.scale(p.keys, kv_head);
      keys.k_scale[u] = p.keys.scales[scale];
      keys.v_scale[u] = p.values.scales[scale];
    }
  }
}

template <typename T, typename C, int kTeam, int kGroup>
__device__ __forceinline__ void add_keys(const Keys<C>& keys,
                                         int64_t base,
                                         KeyRange part,
                                         const Query<C> (&q)[kGroup],
                                         Softmax<kGroup, kElements<C>>& softmax) {
  constexpr int kWidth = kElements<C>;
  const int team = static_cast<int>(threadIdx.x) / kTeam;
  gather_lanes();
  float score[kUnroll][kGroup];
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
#pragma unroll
    for (int g = 0; g < kGroup; ++g) {
      auto sum = q[g].products(keys.k[u]);
#pragma unroll
      for (int mask = kTeam / 2; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
      float value = q[g].score(sum);
      if constexpr (sizeof(C) == 1) value *= keys.k_scale[u];
      score[u][g] = base + u * kTeams<kTeam> + team < part.end ? value : kMinusInfinity;
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
      if constexpr (sizeof(C) == 1) weight[u][g] *= keys.v_scale[u];
    }
#pragma unroll
    for (int i = 0; i < kWidth; ++i) softmax.mix[g][i] *= kept;
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    float x[kWidth];
    unpack(keys.v[u], x);
#pragma unroll
    for (int g = 0; g < kGroup; ++g)
#pragma unroll
      for (int i = 0; i < kWidth; ++i)
        softmax.mix[g][i] = fmaf(weight[u][g], x[i], softmax.mix[g][i]);
  }
}

// If a block processes all keys of its token, it prefetches the next keys while it uses the current
// ones: with many tokens the memory must never be idle.
template <typename T, typename C, int kTeam, int kGroup, bool kWhole>
__device__ __forceinline__ void iterate_keys(const CachedAttention<T, C>& p,
                                             const SlotCells& cells,
                                             KeyRange part,
                                             int64_t kv_head,
                                             const Query<C> (&q)[kGroup],
                                             Softmax<kGroup, kElements<C>>& softmax) {
  constexpr int kRound = kTeams<kTeam> * kUnroll;
  Keys<C> keys;
  if constexpr (kWhole) {
    Keys<C> next;
    load_keys<T, C, kTeam>(p, cells, part.begin, part, kv_head, next);
    for (int64_t base = part.begin; base < part.end; base += kRound) {
      keys = next;
      if (base + kRound < part.end)
        load_keys<T, C, kTeam>(p, cells, base + kRound, part, kv_head, next);
      add_keys<T, C, kTeam, kGroup>(keys, base, part, q, softmax);
    }
  } else {
    for (int64_t base = part.begin; base < part.end; base += kRound) {
      load_keys<T, C, kTeam>(p, cells, base, part, kv_head, keys);
      add_keys<T, C, kTeam, kGroup>(keys, base, part, q, softmax);
    }
  }
}

// The shared memory of a block.
template <int kTeam, int kGroup, int kWidth>
struct Scratch {
  Merged<kGroup, kTeams<kTeam>, kTeam * kWidth> merged;
  PartScratch<kGroup> part;
};

// One token's heads over one part of its keys.
template <typename T, typename C, int kTeam, int kGroup, bool kWhole>
__device__ __forceinline__ void attend(const CachedAttention<T, C>& p,
                                       Scratch<kTeam, kGroup, kElements<C>>& scratch,
                                       const BlockHeads<kGroup>& block,
                                       int64_t token,
                                       int32_t position,
                                       int split,
                                       int splits) {
  constexpr int kWidth = kElements<C>;
  auto& merged = scratch.merged;
  const int64_t heads = block.count, head = block.first, head_size = p.keys.head_size;
  const int team = static_cast<int>(threadIdx.x) / kTeam,
            lane = static_cast<int>(threadIdx.x) % kTeam;
  const bool is_inside = lane * kWidth < head_size;
  Query<C> q[kGroup];
  const float to_log2 = p.scale * kLog2OfE;
#pragma unroll
  for (int g = 0; g < kGroup; ++g) {
    const T* const from = p.q.data + token * p.q.token_stride + (head + g) * p.q.head_stride;
    q[g].template fill<kTeam>([&](int i) {
      return g < heads && is_inside ? to_log2 * to_float(from[lane * kWidth + i]) : 0.0f;
    });
  }
  Softmax<kGroup, kWidth> softmax;
#pragma unroll
  for (int g = 0; g < kGroup; ++g) {
    softmax.top[g] = kMinusInfinity;
    softmax.sum[g] = 0.0f;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) softmax.mix[g][i] = 0.0f;
  }
  const SlotCells cells(p.cells, p.cells.slots[token]);
  const KeyRange part =
      part_of(position, p.reach, cells.ring, split, splits, kTeams<kTeam> * kUnroll);
  iterate_keys<T, C, kTeam, kGroup, kWhole>(p, cells, part, block.kv_head, q, softmax);
#pragma unroll
  for (int g = 0; g < kGroup; ++g) {
    merged.top[g][team] = softmax.top[g];
    merged.sum[g][team] = softmax.sum[g];
#pragma unroll
    for (int i = 0; i < kWidth; ++i) merged.mix[g][team][lane * kWidth + i] = softmax.mix[g][i];
  }
  __syncthreads();
  store_part(p, merged, scratch.part, block, token, split, splits);
}

// Mapping: one block per part of the keys (x), per kGroup of the heads that share a KV head (y),
// and per token (z). Bound: memory, the keys and values that the tokens attend to; with few tokens,
// latency.
template <typename T, typename C, int kTeam, int kGroup, bool kWhole>
__global__ void __launch_bounds__(kThreads)
    cached_attention_kernel(const __grid_constant__ CachedAttention<T, C> p) {
  __shared__ __align__(16) Scratch<kTeam, kGroup, kElements<C>> scratch;
  let_next_start();
  wait_for_grids();
  const BlockHeads<kGroup> block(p, blockIdx.y);
  const int64_t token = blockIdx.z;
  note_bad_cells(p.cells);
  const int32_t position = live_position(p.cells, token);
  if (position < 0) {
    if (blockIdx.x == 0) clear_heads(p, block, token);
    return;
  }
  const int splits = splits_of(position, p.reach, kTeams<kTeam> * kUnroll);
  if (static_cast<int>(blockIdx.x) >= splits) return;
  attend<T, C, kTeam, kGroup, kWhole>(p, scratch, block, token, position,
                                      static_cast<int>(blockIdx.x), splits);
}

// Tokens that share their tile (64 tokens) with no other token of their sequence, as those of
// sequences that generate do in a batch with a prompt; flash_attention_cached_kernel leaves them
// out. Mapping: one block per slot and kGroup heads, the heads of a slot next to each other. Bound:
// as above; a block without a lone token ends after a search of the slots.
template <int kTeam, int kGroup, bool kWhole>
__global__ void __launch_bounds__(kThreads)
    lone_tokens_kernel(const __grid_constant__ CachedAttention<uint16_t> p) {
  using T = uint16_t;
  __shared__ __align__(16) Scratch<kTeam, kGroup, kElements<T>> scratch;
  let_next_start();
  wait_for_grids();
  const auto blocks = static_cast<unsigned>(head_blocks<kGroup>(p));
  const BlockHeads<kGroup> block(p, blockIdx.x % blocks);
  visit_lone_tokens(p.cells, blockIdx.x / blocks, [&](int64_t token, int32_t position) {
    attend<T, T, kTeam, kGroup, kWhole>(p, scratch, block, token, position, 0, 1);
  });
}

// Lanes that hold a head. Only a few variants are compiled.
int64_t team_of(int64_t head_size, int64_t elements) {
  for (int64_t team : {4, 8, 16})
    if (head_size <= team * elements) return team;
  return 32;
}

template <typename T, int kTeam, int kGroup>
cudaError_t launch_group(const CachedAttention<T>& call, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(cached_attention_splits(
                      call.cells.tokens, call.keys.kv_heads, call.keys.head_size, call.reach)),
                  static_cast<unsigned>(head_blocks<kGroup>(call)),
                  static_cast<unsigned>(call.cells.tokens));
  // The prefetching variant needs spare registers, and only pays off if the keys are not split.
  if constexpr (kGroup <= 2 && sizeof(T) == 2)
    if (grid.x == 1)
      return launch_early(cached_attention_kernel<T, T, kTeam, kGroup, true>, grid, kThreads, 0,
                          stream, call);
  return launch_early(cached_attention_kernel<T, T, kTeam, kGroup, false>, grid, kThreads, 0,
                      stream, call);
}

// Over i8: heads with keys of their own, of so many tokens that keys are not split.
template <int kTeam>
cudaError_t launch_own_quants(const CachedAttention<uint16_t, int8_t>& call, cudaStream_t stream) {
  const dim3 grid(1, static_cast<unsigned>(call.heads), static_cast<unsigned>(call.cells.tokens));
  return launch_early(cached_attention_kernel<uint16_t, int8_t, kTeam, 1, true>, grid, kThreads, 0,
                      stream, call);
}

template <int kTeam, int kGroup>
cudaError_t launch_lone_tokens(const CachedAttention<uint16_t>& call, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(lone_blocks(call.cells) * head_blocks<kGroup>(call)));
  return launch_early(lone_tokens_kernel<kTeam, kGroup, (kGroup <= 2)>, grid, kThreads, 0, stream,
                      call);
}

// Calls launch(integral constant) for the lanes that hold a head.
template <typename C, typename Launch>
cudaError_t with_team(int64_t head_size, const Launch& launch) {
  switch (team_of(head_size, kElements<C>)) {
    case 4:
      return launch(std::integral_constant<int, 4>());
    case 8:
      return launch(std::integral_constant<int, 8>());
    case 16:
      return launch(std::integral_constant<int, 16>());
    default:
      if constexpr (kElements<C> * 16 < kCachedAttentionMostHeadSize)
        return launch(std::integral_constant<int, 32>());
      return cudaErrorInvalidValue;
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

template <typename T, typename C>
bool is_valid(const CachedAttention<T, C>& call) {
  const int64_t head_size = call.keys.head_size;
  return head_size % kElements<C> == 0 && head_size <= kCachedAttentionMostHeadSize &&
         call.reach >= 1;
}

}  // namespace

int64_t cached_attention_round_keys(int64_t head_size) {
  return kThreads / team_of(head_size, kElements<uint16_t>) * kUnroll;
}

namespace {

// As many parts as make so many blocks, but no part shorter than a round of a block's teams.
int64_t parts_for(int64_t blocks,
                  int64_t tokens,
                  int64_t kv_heads,
                  int64_t head_size,
                  int64_t reach) {
  constexpr int64_t kLeastKeys = 32, kMostSplits = kLanes;
  const int64_t round_keys = cached_attention_round_keys(head_size);
  const int64_t splits = blocks / std::max<int64_t>(tokens * kv_heads, 1);
  return std::clamp<int64_t>(std::min(splits, reach / std::max(round_keys, kLeastKeys)), 1,
                             kMostSplits);
}

constexpr int64_t kBlocks = 528;  // four for each of 132 multiprocessors

// The parts of a call that suits_group, at most.
int64_t group_splits(int64_t tokens, int64_t kv_heads, int64_t head_size, int64_t reach) {
  return parts_for(2 * kBlocks, tokens, kv_heads, head_size, reach);
}

// Heads with keys of their own, of so many tokens that their blocks do not fit on the
// multiprocessors at once, are faster without tensor cores, except over fp8, which takes more
// instructions to widen than to multiply.
template <typename T, typename C>
bool is_better_in_group(const CachedAttention<T, C>& call) {
  constexpr int64_t kAtOnce = 264;
  return std::is_same_v<C, F8E4M3> || call.heads > call.keys.kv_heads ||
         call.cells.tokens * call.heads <= kAtOnce;
}

}  // namespace

int64_t cached_attention_splits(int64_t tokens,
                                int64_t kv_heads,
                                int64_t head_size,
                                int64_t reach) {
  return parts_for(kBlocks, tokens, kv_heads, head_size, reach);
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
  const int64_t splits = group_splits(tokens, kv_heads, head_size, reach);
  if (splits == 1) return 0;
  return cached_attention_tickets(tokens, heads, kv_heads) * heads_of_block(heads / kv_heads) *
         splits * (head_size + 4) * static_cast<int64_t>(sizeof(float));
}

template <typename T, typename C>
cudaError_t launch_cached_attention(const CachedAttention<T, C>& call, cudaStream_t stream) {
  if (!is_valid(call)) return cudaErrorInvalidValue;
  if (call.cells.tokens == 0) return cudaSuccess;
  if constexpr (sizeof(T) == 2)
    if (suits_group(call) && is_better_in_group(call)) {
      const int64_t splits =
          group_splits(call.cells.tokens, call.keys.kv_heads, call.keys.head_size, call.reach);
      return launch_cached_group(call, splits, stream);
    }
  if constexpr (std::is_same_v<C, F8E4M3>)
    return cudaErrorInvalidValue;
  else if constexpr (!std::is_same_v<T, C>)
    return with_team<C>(call.keys.head_size, [&](auto team) {
      return launch_own_quants<decltype(team)::value>(call, stream);
    });
  else
    return with_team<T>(call.keys.head_size, [&](auto team) {
      return with_group(call.heads / call.keys.kv_heads, [&](auto group) {
        return launch_group<T, decltype(team)::value, decltype(group)::value>(call, stream);
      });
    });
}

template <typename C>
cudaError_t launch_cached_attention_of_lone_tokens(const CachedAttention<uint16_t, C>& call,
                                                   cudaStream_t stream) {
  if (!is_valid(call)) return cudaErrorInvalidValue;
  if (call.cells.tokens == 0) return cudaSuccess;
  if (suits_group(call) && (sizeof(C) == 1 || call.heads > call.keys.kv_heads))
    return launch_lone_group(call, stream);
  if constexpr (!std::is_same_v<uint16_t, C>)
    return cudaErrorInvalidValue;
  else
    return with_team<C>(call.keys.head_size, [&](auto team) {
      return with_group(call.heads / call.keys.kv_heads, [&](auto group) {
        return launch_lone_tokens<decltype(team)::value, decltype(group)::value>(call, stream);
      });
    });
}

template cudaError_t launch_cached_attention(const CachedAttention<float>&, cudaStream_t);
template cudaError_t launch_cached_attention(const CachedAttention<uint16_t>&, cudaStream_t);
template cudaError_t launch_cached_attention(const CachedAttention<uint16_t, int8_t>&,
                                             cudaStream_t);
template cudaError_t launch_cached_attention(const CachedAttention<uint16_t, F8E4M3>&,
                                             cudaStream_t);
template cudaError_t launch_cached_attention_of_lone_tokens(const CachedAttention<uint16_t>&,
                                                            cudaStream_t);
template cudaError_t launch_cached_attention_of_lone_tokens(
    const CachedAttention<uint16_t, int8_t>&,
    cudaStream_t);
template cudaError_t launch_cached_attention_of_lone_tokens(
    const CachedAttention<uint16_t, F8E4M3>&,
    cudaStream_t);

}  // namespace ridge::backends::cuda
