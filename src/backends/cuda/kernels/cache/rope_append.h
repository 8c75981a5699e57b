// SPDX-License-Identifier: Apache-2.0
// Prepares a merged projection for attention over a cache, on CUDA: norms and rotates heads of q
// and k, and writes keys and values to their cells. Implements the op rope_append
// (ops/rope_append.cc). T is float or uint16_t (bf16); the caches are of T, or of quants under
// uint16_t.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/cache/kv_cache.h"
#include "backends/kernels/strided_rows.h"

namespace ridge::backends::cuda {

inline constexpr int64_t kRopeAppendMostHeadSize = 256;

template <typename T, typename C = T>
struct RopeAppend {
  CacheCells cells;
  bool is_ready_early = false;  // no earlier kernel writes positions, slots or the table
  int64_t heads = 0;            // H
  StridedRows<const T> merged;  // [N, (H + 2 K) E]
  const float* cos = nullptr;   // [N, E/2]
  const float* sin = nullptr;
  bool interleaved = false;
  const float* q_norm = nullptr;  // [E]; null: heads are not normed
  const float* k_norm = nullptr;
  float eps = 0;
  float norm_offset = 0;
  Cache<C> keys, values;
  T* q = nullptr;  // [N, H, E]
};

// If several tokens share a cell, the last one is written. One launch, which may start while the
// previous one ends.
template <typename T, typename C>
cudaError_t launch_rope_append(const RopeAppend<T, C>& call, cudaStream_t stream);

}  // namespace ridge::backends::cuda
