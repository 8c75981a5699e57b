// SPDX-License-Identifier: Apache-2.0
// One token's way from its merged projection through an attention over a cache, on CUDA: the op
// append_attention (ops/append_attention.cc) in bf16. Not for several tokens: rope_append and
// cached_attention serve those.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/cache/kv_cache.h"
#include "backends/kernels/strided_rows.h"

namespace ridge::backends::cuda {

struct AppendAttention {
  CacheCells cells;         // of one token
  bool is_settled = false;  // no kernel before this one writes positions, slots, table, caches
  int64_t heads = 0;        // H
  int group = 1;            // H / K, at most 8
  int64_t reach = 0;        // the token at position p sees the keys of (p - reach, p]
  float scale = 1;
  const uint16_t* merged = nullptr;  // [(H + 2 K) E]
  const float* cos = nullptr;        // [E/2]
  const float* sin = nullptr;
  bool interleaved = false;
  const float* q_norm = nullptr;  // [E]; null: heads are not normed
  const float* k_norm = nullptr;
  float eps = 0;
  float norm_offset = 0;
  Cache<uint16_t> keys, values;
  uint16_t* o = nullptr;  // [H, E]
};

// Whether the current device has the kernel and it is the faster way for these extents.
bool takes_append_attention(int64_t heads, int64_t kv_heads, int64_t head_size, int64_t reach);

// One launch, which may begin while the one before it ends. Rows of merged, the caches and o at
// multiples of 16 bytes.
cudaError_t launch_append_attention(const AppendAttention& call, cudaStream_t stream);

}  // namespace ridge::backends::cuda
