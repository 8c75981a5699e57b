// SPDX-License-Identifier: Apache-2.0
// Shared by cached_attention and the primitives of its expansion: extents and shape rule.
#pragma once

#include <algorithm>

#include "ops/kv_cache.h"

namespace ridge::ops {

struct CachedAttention {
  CacheExtents cache;
  int64_t heads = 0;
  int64_t window = 0;   // 0 if none
  int64_t context = 0;  // bound on the positions of this graph's tokens, plus 1
  double scale = 1;
  // Cells in use: the columns of the score matrix.
  int64_t columns() const { return std::min(context, cache.ring()); }
  // The most keys that a token attends to.
  int64_t keys() const { return window > 0 ? std::min(window, columns()) : columns(); }
  bool sees(int64_t position, int64_t cell) const {
    int64_t key = position_in_cell(position, cell, cache.ring());
    return position >= 0 && key >= 0 && (window == 0 || key > position - window);
  }
};

// Inputs: q [N,H,E]; keys and values [blocks,block_tokens,K,E]; positions and slots i32[N]; block
// table i32[S,blocks_per_slot]; the scales of keys and of values if these are i8 (kv_cache.h).
CachedAttention cached_attention_shape(const Call& call);

// The two ops that append_attention replaces.
const Op& cached_attention_op();
const Op& rope_append_op();

}  // namespace ridge::ops
