// SPDX-License-Identifier: Apache-2.0
// Attention of N tokens, of any mix of sequences, over the cells of their slots' caches: in one
// kernel, or as the separate steps of an eager framework. T is float or uint16_t (bf16); sums are
// fp32.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/cache/kv_cache.h"
#include "backends/kernels/cached_primitives.h"

namespace ridge::backends::cpu {

// A part of the keys that a token attends to: positions first .. first + count - 1.
struct PartKeys {
  int64_t first = 0;
  int64_t count = 0;
};
// 256 keys and values of 64 columns in fp32 are 128 KiB, which take longer to read than a thread
// takes to start.
inline constexpr int64_t kPartKeys = 256;

// A team shares keys and values from this size on, which take 2 us: they come from memory at 7 GB/s
// for one thread by itself (two cores of an AMD EPYC).
inline constexpr int64_t kSharedKeyBytes = 16 << 10;

template <typename T>
struct CachedAttention {
  CacheCells cells;
  int64_t heads = 0;    // H, a multiple of K
  int64_t window = 0;   // 0: none
  int64_t columns = 0;  // C: cells that may be in use
  float scale = 1;
  TokenHeads<const T> q;  // [N, H, E]
  Cache<const T> keys;
  Cache<const T> values;
  TokenHeads<T> o;  // [N, H, E]
  float* workspace = nullptr;

  // The same call for `count` tokens from `first` on.
  CachedAttention part_of_tokens(int64_t first, int64_t count) const {
    CachedAttention part = *this;
    part.cells.tokens = count;
    part.cells.positions += first;
    part.cells.slots += first;
    part.q.data += first * q.token_stride;
    part.o.data += first * o.token_stride;
    return part;
  }
  // The most keys that a token attends to.
  int64_t most_keys() const { return window > 0 && window < columns ? window : columns; }
  // The number of keys that token n attends to; 0 for padding.
  int64_t seen(int64_t n) const {
    const int64_t reach = window > 0 && window < cells.ring() ? window : cells.ring();
    return cells.positions[n] + 1 < reach ? cells.positions[n] + 1 : reach;
  }
  int64_t parts(int64_t n) const { return (seen(n) + kPartKeys - 1) / kPartKeys; }
  PartKeys part(int64_t n, int64_t index) const {
    const int64_t left = seen(n) - index * kPartKeys;
    return {cells.positions[n] + 1 - left, left < kPartKeys ? left : kPartKeys};
  }
};

int64_t cached_attention_workspace_bytes(int64_t tokens,
                                         int64_t heads,
                                         int64_t kv_heads,
                                         int64_t head_size,
                                         int64_t most_keys);
int64_t cached_scores_workspace_bytes(int64_t head_size, int64_t columns);  // also for cached_mix

// o[n] = softmax(scale q[n] k^T) v over the keys at n's position and before, or within the window;
// 0 for padding. The bits do not depend on the thread count or on the other tokens of the call,
// with one exception: at least kChunkTokens consecutive tokens of a sequence are computed in tiles
// of keys. A token has the same bits in any such chunk. Bound: in decode memory, each key and value
// read once; for a prompt FMA.
template <typename T>
void cached_attention(const CachedAttention<T>& call);

template <typename T>
void cached_scores(const CachedScores<T>& call);
template <typename T>
void cached_mix(const CachedMix<T>& call);
template <typename T>
void cached_mask(const CachedMask<T>& call);

}  // namespace ridge::backends::cpu
