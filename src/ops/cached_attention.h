// SPDX-License-Identifier: Apache-2.0
// What cached_attention and the primitives of its expansion share: extents and shape rule.
#pragma once

#include <algorithm>

#include "ops/kv_cache.h"

namespace ridge::ops {

struct CachedAttention {
  CacheExtents cache;
  int64_t heads = 0;
  int64_t window = 0;   // 0: none
  int64_t context = 0;  // bound on the positions that this graph's tokens have, plus 1
  double scale = 1;
  // Cells that hold anything: the columns of the matrix of scores.
  int64_t columns() const { return std::min(context, cache.ring()); }
  // Keys that a token sees at most.
  int64_t keys() const { return window > 0 ? std::min(window, columns()) : columns(); }
  bool sees(int64_t position, int64_t cell) const {
    int64_t key = position_in_cell(position, cell, cache.ring());
    return position >= 0 && key >= 0 && (window == 0 || key > position - window);
  }
};

// Inputs q [N,H,E], keys, values [blocks,block_tokens,K,E],
// positions, slots i32[N], block table i32[S,blocks_per_slot].
CachedAttention cached_attention_shape(const Call& call);

// The two ops that append_attention stands for.
const Op& cached_attention_op();
const Op& rope_append_op();

}  // namespace ridge::ops
