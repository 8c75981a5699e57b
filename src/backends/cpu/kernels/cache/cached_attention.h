// SPDX-License-Identifier: Apache-2.0
// Attention of N tokens, of any mix of sequences, over the cells of their slots' caches: in one
// kernel, or as the separate steps of an eager framework. T, the type of tokens, and C, that of the
// cache, are as in backends/kernels/kv_cache.h; sums are fp32.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/cpu/kernels/cache/kv_cache.h"
#include "backends/cpu/kernels/partition.h"
#include "backends/kernels/cached_primitives.h"

namespace ridge::backends::cpu {

// A part of the keys that a token attends to: positions first .. first + count - 1.
struct PartKeys {
  int64_t first = 0;
  int64_t count = 0;
};
// The most keys of a part. Sums of weighted quants of i8 are exact over so many.
inline constexpr int64_t kPartKeys = 256;
// All parts but the last are whole steps, so that rows of scores are whole vectors.
inline constexpr int64_t kPartStep = 16;
// From so many keys on, a token has at least two parts, of which threads may take some each.
inline constexpr int64_t kSharedKeys = 32;
static_assert(kPartKeys % kPartStep == 0 && kSharedKeys >= 2 * kPartStep);

// Cells that the inner loops take at a time. They write as many scores, also past the end of a row.
inline constexpr int kFourCells = 4;

// A team shares keys and values from this size on, which take 2 us: they come from memory at 7 GB/s
// for one thread by itself (two cores of an AMD EPYC).
inline constexpr int64_t kSharedKeyBytes = 16 << 10;

// The parts of so many keys: equally long but for a step, and an even number, so that two threads
// have the same work.
inline int64_t parts_of_keys(int64_t keys) {
  if (keys < kSharedKeys) return keys > 0 ? 1 : 0;
  return (keys + 2 * kPartKeys - 1) / (2 * kPartKeys) * 2;
}

template <typename T, typename C = T>
struct CachedAttention {
  CacheCells cells;
  int64_t heads = 0;    // H, a multiple of K
  int64_t window = 0;   // 0: none
  int64_t columns = 0;  // C: cells that may be in use
  float scale = 1;
  TokenHeads<const T> q;  // [N, H, E]
  Cache<const C> keys;
  Cache<const C> values;
  TokenHeads<T> o;  // [N, H, E]
  float* workspace = nullptr;
  bool in_chunks = true;  // a prompt's tokens in tiles of keys
  bool in_int16 = false;  // these tiles in integers of 16 bits

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
  int64_t parts(int64_t n) const { return parts_of_keys(seen(n)); }
  PartKeys part(int64_t n, int64_t index) const {
    const int64_t all = seen(n);
    const Range steps = part_of((all + kPartStep - 1) / kPartStep, parts(n), index);
    const int64_t begin = steps.begin * kPartStep, end = std::min(steps.end * kPartStep, all);
    return {cells.positions[n] + 1 - all + begin, end - begin};
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
// with one exception: if the call allows it (in_chunks), at least kChunkTokens consecutive tokens
// of a sequence are computed in tiles of keys. A token has the same bits in any such chunk. If the
// call allows it (in_int16), tiles round q, k, the weights and v to 16 bits and multiply integers.
// Over a cache of i8, single tokens round q and the weights of values to 16 bits (relative errors
// of 2^-16) and multiply integers. Bound: in decode memory, each key and value read once; for a
// prompt multiplications.
template <typename T, typename C>
void cached_attention(const CachedAttention<T, C>& call);

template <typename T, typename C>
void cached_scores(const CachedScores<T, C>& call);
template <typename T, typename C>
void cached_mix(const CachedMix<T, C>& call);
template <typename T>
void cached_mask(const CachedMask<T>& call);
template <typename T>
void cached_softmax(const CachedSoftmax<T>& call);

}  // namespace ridge::backends::cpu
