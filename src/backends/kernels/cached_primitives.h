// SPDX-License-Identifier: Apache-2.0
// Arguments of the kernels cached_scores, cached_mask, cached_softmax and cached_mix:
// cached_attention in separate steps, with the matrix of scores in memory. T is float or uint16_t
// (bf16), C as in kv_cache.h; sums are fp32.
#pragma once

#include <cstdint>

#include "backends/kernels/kv_cache.h"

namespace ridge::backends {

// scores[n, h, c] = q[n, h] . key in cell c of n's slot, for all C columns; 0 for padding.
template <typename T, typename C = T>
struct CachedScores {
  CacheCells cells;
  int64_t heads = 0;      // H, a multiple of K
  int64_t columns = 0;    // C: cells that may be in use
  TokenHeads<const T> q;  // [N, H, E]
  Cache<const C> keys;
  T* scores = nullptr;         // [N, H, C]
  float* workspace = nullptr;  // the backend's cached_scores_workspace_bytes, if not 0
};

// y[n, h, c] = x[n, h, c] where token n attends to cell c, else -infinity.
template <typename T>
struct CachedMask {
  int64_t tokens = 0, heads = 0, columns = 0;
  const int32_t* positions = nullptr;  // [N]
  int64_t window = 0;                  // 0: none
  int64_t ring = 1;
  const T* x = nullptr;  // [N, H, C]
  T* y = nullptr;        // may be x
};

// y[n, h] = softmax over the cells c that token n attends to of scale x[n, h, c]; 0 for others.
template <typename T>
struct CachedSoftmax {
  CachedMask<T> mask;
  float scale = 1;
};

// o[n, h] = sum over c of p[n, h, c] times the value in cell c; 0 for padding.
template <typename T, typename C = T>
struct CachedMix {
  CacheCells cells;
  int64_t heads = 0;
  int64_t columns = 0;
  const T* p = nullptr;  // [N, H, C]
  Cache<const C> values;
  TokenHeads<T> o;             // [N, H, E]
  float* workspace = nullptr;  // as in CachedScores
};

}  // namespace ridge::backends
