// SPDX-License-Identifier: Apache-2.0
// A warpgroup's tile of scores in registers, its own 64 rows by the rows that it iterates over:
// masks, and the elementwise steps of a backward pass. Contains no products and no memory layout.
// sm_90a only.
#pragma once

#include "backends/cuda/kernels/flash_attention/flash_attention.h"
#include "backends/cuda/kernels/flash_attention/schedule.h"
#include "backends/cuda/kernels/hopper_instructions.cuh"

namespace ridge::backends::cuda::hopper {

constexpr float kNoScore = -__builtin_huge_valf();

// The visible columns of a row of scores: keys if rows are queries, queries if rows are keys.
struct VisibleColumns {
  int first = 0;
  unsigned count = 0;
  template <bool kOwnsKeys>
  static __device__ __forceinline__ VisibleColumns of(const DocumentVisibility& v, int row) {
    int first = kOwnsKeys && v.causal ? row : 0;
    int end = !kOwnsKeys && v.causal ? min(row + 1, v.sequence) : v.sequence;
    if (v.window > 0 && kOwnsKeys) end = min(end, row + v.window);
    if (v.window > 0 && !kOwnsKeys) first = max(first, row - v.window + 1);
    if (kOwnsKeys) end = min(end, v.document_end(row));
    if (!kOwnsKeys) first = max(first, v.document_first(row));
    return {first, row < v.sequence && end > first ? static_cast<unsigned>(end - first) : 0u};
  }
  __device__ __forceinline__ bool contain(int column) const {
    return static_cast<unsigned>(column - first) < count;
  }
};

// Whether the queries of one tile attend to none, or to all, of the keys of another.
struct TileSight {
  bool none, whole;
  __device__ __forceinline__
  TileSight(const DocumentVisibility& v, int query, int queries, int key, int keys) {
    const int last_query = query + queries - 1, last_key = key + keys - 1;
    none = query >= v.sequence || key >= v.sequence || (v.causal && key > last_query) ||
           (v.window > 0 && last_key <= query - v.window) || last_key < v.document_first(query);
    whole = last_query < v.sequence && last_key < v.sequence && (!v.causal || last_key <= query) &&
            (v.window == 0 || key > last_query - v.window) && key >= v.document_first(last_query);
  }
};

// Statistics of the queries, -lse in base 2 and -delta, for the functions below. OfRows: rows are
// queries, and the thread's rows are g and g + 8.
struct OfRows {
  const float (&minus_lse)[2];
  const float (&minus_delta)[2];
  struct Pair {
    float low, high;
    __device__ __forceinline__ float operator()(int r, int) const { return r == 0 ? low : high; }
  };
  __device__ __forceinline__ Pair lse(int) const { return {minus_lse[0], minus_lse[1]}; }
  __device__ __forceinline__ Pair delta(int) const { return {minus_delta[0], minus_delta[1]}; }
};
// OfColumns: columns are queries, and the thread's columns are 8 j + 2 t and the next, in shared
// memory from column 2 t on.
struct OfColumns {
  uint32_t minus_lse, minus_delta;
  struct Pair {
    float2 pair;
    __device__ __forceinline__ float operator()(int, int c) const {
      return c == 0 ? pair.x : pair.y;
    }
  };
  __device__ __forceinline__ Pair lse(int j) const {
    return {load_shared_float2(minus_lse + 32 * j)};
  }
  __device__ __forceinline__ Pair delta(int j) const {
    return {load_shared_float2(minus_delta + 32 * j)};
  }
};

// Converts an accumulator of scores, 64 rows from `own` by kStreamRows columns from `streamed`, to
// probabilities.
template <bool kOwnsKeys, int kStreamRows, typename Statistics>
__device__ __forceinline__ void probabilities(float (&s)[kStreamRows / 2],
                                              float scale_log2,
                                              bool is_whole,
                                              const DocumentVisibility& v,
                                              int own,
                                              int streamed,
                                              const Statistics& statistics) {
  const int thread = static_cast<int>(threadIdx.x) % kWarpgroupThreads;
  const int row = own + thread / 32 * 16 + thread % 32 / 4, column = streamed + thread % 4 * 2;
  VisibleColumns visible[2] = {};
  if (!is_whole) {
    visible[0] = VisibleColumns::of<kOwnsKeys>(v, row);
    visible[1] = VisibleColumns::of<kOwnsKeys>(v, row + 8);
  }
#pragma unroll
  for (int j = 0; j < kStreamRows / 8; ++j) {
    const auto lse = statistics.lse(j);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int r = i / 2, c = i % 2;
      float& weight = s[4 * j + i];
      weight = exp2_fast(fmaf(weight, scale_log2, lse(r, c)));
      if (!is_whole && !visible[r].contain(column + 8 * j + c)) weight = 0.0f;
    }
  }
}

// Converts dp to the gradients of the scores before `scale`.
template <int kStreamRows, typename Statistics>
__device__ __forceinline__ void score_gradients(float (&dp)[kStreamRows / 2],
                                                const float (&weights)[kStreamRows / 2],
                                                const Statistics& statistics) {
#pragma unroll
  for (int j = 0; j < kStreamRows / 8; ++j) {
    const auto delta = statistics.delta(j);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      dp[4 * j + i] = weights[4 * j + i] * (dp[4 * j + i] + delta(i / 2, i % 2));
  }
}

}  // namespace ridge::backends::cuda::hopper
