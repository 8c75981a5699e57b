// SPDX-License-Identifier: Apache-2.0
// Attention of one token over a cache, from its merged projection, on CUDA: the op append_attention
// (ops/append_attention.cc) in bf16. Several tokens use rope_append and cached_attention instead.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/cache/kv_cache.h"
#include "backends/kernels/strided_rows.h"

namespace ridge::backends::cuda {

struct AppendAttention {
  CacheCells cells;             // they place one token
  bool is_ready_early = false;  // no earlier kernel writes positions, slots, table or caches
  int64_t heads = 0;            // H
  int group = 1;                // H / K, at most 8
  int64_t reach = 0;            // the token at position p attends to keys in (p - reach, p]
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

// Whether the current device supports the kernel, and it is the fastest way for these extents.
bool takes_append_attention(int64_t heads, int64_t kv_heads, int64_t head_size, int64_t reach);

// One launch, which may start while the previous one ends. Rows of merged, the caches and o must be
// aligned to 16 bytes.
cudaError_t launch_append_attention(const AppendAttention& call, cudaStream_t stream);

}  // namespace ridge::backends::cuda
