// SPDX-License-Identifier: Apache-2.0
// A merged projection on its way into an attention over a cache, on CUDA: heads of q and k normed
// and rotated, keys and values written into their cells. The op rope_append (ops/rope_append.cc). T
// is float or uint16_t (bf16).
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/cache/kv_cache.h"
#include "backends/kernels/strided_rows.h"

namespace ridge::backends::cuda {

inline constexpr int64_t kRopeAppendMostHeadSize = 256;

template <typename T>
struct RopeAppend {
  CacheCells cells;
  bool is_settled = false;      // no kernel before this one writes positions, slots or the table
  int64_t heads = 0;            // H
  StridedRows<const T> merged;  // [N, (H + 2 K) E]
  const float* cos = nullptr;   // [N, E/2]
  const float* sin = nullptr;
  bool interleaved = false;
  const float* q_norm = nullptr;  // [E]; null: heads are not normed
  const float* k_norm = nullptr;
  float eps = 0;
  float norm_offset = 0;
  Cache<T> keys, values;
  T* q = nullptr;  // [N, H, E]
};

// Of tokens that share a cell the last one stays. One
// launch, which may begin while the one before it ends.
template <typename T>
cudaError_t launch_rope_append(const RopeAppend<T>& call, cudaStream_t stream);

}  // namespace ridge::backends::cuda
