// SPDX-License-Identifier: Apache-2.0
// Attention of a run's tokens over a KV cache, on CUDA: as one kernel, and as the steps of its
// expansion with the matrix of scores in memory. T is float or uint16_t (bf16), C that of the cache
// (backends/kernels/kv_cache.h); sums are fp32 in a fixed order.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/cache/kv_cache.h"
#include "backends/kernels/cached_primitives.h"

namespace ridge::backends::cuda {

template <typename T, typename C = T>
struct CachedAttention {
  CacheCells cells;
  int64_t heads = 0;  // H, a multiple of K
  int64_t reach = 0;  // a token at position p attends to keys in (p - reach, p]
  float scale = 1;
  TokenHeads<const T> q;  // [N, H, E]
  Cache<const C> keys, values;
  TokenHeads<T> o;  // [N, H, E]
  // Before this run's kernels end: cells are known, and of the caches only the rows of the run's
  // tokens change.
  bool is_ready_early = false;
  float* workspace = nullptr;  // cached_attention_workspace_bytes
  // cached_attention_tickets words that are zero before and after the launch.
  int32_t* tickets = nullptr;
};

inline constexpr int64_t kCachedAttentionMostHeadSize = 256;

// Whether each head in bf16 can be accessed in vectors of 16 bytes.
template <typename T>
bool lies_in_vectors(const TokenHeads<T>& heads) {
  static_assert(sizeof(T) == 2);
  return reinterpret_cast<uintptr_t>(heads.data) % 16 == 0 && heads.token_stride % 8 == 0 &&
         heads.head_stride % 8 == 0;
}

// The number of parts into which the keys of a token are split so that the whole GPU is busy. It
// depends only on the extents.
int64_t cached_attention_splits(int64_t tokens, int64_t kv_heads, int64_t head_size, int64_t reach);
// Keys that the teams of a block load at a time.
int64_t cached_attention_round_keys(int64_t head_size);
int64_t cached_attention_workspace_bytes(int64_t tokens,
                                         int64_t heads,
                                         int64_t kv_heads,
                                         int64_t head_size,
                                         int64_t reach);
int64_t cached_attention_tickets(int64_t tokens, int64_t heads, int64_t kv_heads);

// o[n] = softmax(scale q[n] k^T) v; 0 for padding. E must be a multiple of 8, up to 256. A cache of
// quants needs suits_group. One launch.
template <typename T, typename C>
cudaError_t launch_cached_attention(const CachedAttention<T, C>& call, cudaStream_t stream);

// The same on the tensor cores for the tokens of a tile, kCachedAttentionTileTokens tokens of a
// head, that share it with others of their sequence; other rows of o are undefined. No workspace.
// Rows of q, o and the caches must be aligned to 16 bytes. One launch.
template <typename C>
cudaError_t launch_flash_attention_cached(const CachedAttention<uint16_t, C>& call,
                                          cudaStream_t stream);
inline constexpr int64_t kCachedAttentionTileTokens = 64;
// For the other tokens, after it: no sequence waits for those before it in a tile. One launch.
template <typename C>
cudaError_t launch_cached_attention_of_lone_tokens(const CachedAttention<uint16_t, C>& call,
                                                   cudaStream_t stream);
// Both on the tensor cores, for calls whose rows can be read in vectors of 16 bytes, as
// launch_cached_attention with that many parts and launch_cached_attention_of_lone_tokens, which
// call them for what suits.
template <typename C>
bool suits_group(const CachedAttention<uint16_t, C>& call) {
  constexpr int64_t kVector = 16 / sizeof(C);
  return call.keys.head_size % kVector == 0 &&
         call.keys.head_size <= kCachedAttentionMostHeadSize && lies_in_vectors(call.q) &&
         reinterpret_cast<uintptr_t>(call.keys.data) % 16 == 0 &&
         reinterpret_cast<uintptr_t>(call.values.data) % 16 == 0;
}
template <typename C>
cudaError_t launch_cached_group(const CachedAttention<uint16_t, C>& call,
                                int64_t splits,
                                cudaStream_t stream);
template <typename C>
cudaError_t launch_lone_group(const CachedAttention<uint16_t, C>& call, cudaStream_t stream);
inline constexpr int64_t kCachedAttentionFewTokens = 32;  // up to here splitting keys is faster

template <typename T>
cudaError_t launch_cached_scores(const CachedScores<T>& call, cudaStream_t stream);

template <typename T>
cudaError_t launch_cached_mask(const CachedMask<T>& call, cudaStream_t stream);

template <typename T>
cudaError_t launch_cached_softmax(const CachedSoftmax<T>& call, cudaStream_t stream);

template <typename T>
cudaError_t launch_cached_mix(const CachedMix<T>& call, cudaStream_t stream);

// cached_scores and cached_mix in bf16 on the tensor cores. A call suits them if its operands can
// be read in vectors of 16 bytes.
bool suits_tensor_cores(const CachedScores<uint16_t>& call);
bool suits_tensor_cores(const CachedMix<uint16_t>& call);
cudaError_t launch_cached_scores_tensor(const CachedScores<uint16_t>& call, cudaStream_t stream);
cudaError_t launch_cached_mix_tensor(const CachedMix<uint16_t>& call, cudaStream_t stream);

}  // namespace ridge::backends::cuda
