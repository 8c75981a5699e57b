// SPDX-License-Identifier: Apache-2.0
// Attention of a prompt's tokens over their cache, in tiles of queries and keys. Private to
// cached_attention.cc, which finds the prompts.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/cache/cached_attention.h"

namespace ridge::backends::cpu {

// Fewer tokens than a block of scores has rows leave most of a tile's work to padding.
inline constexpr int64_t kChunkTokens = 16;

// Whether chunks among `tokens` go here.
bool takes_chunks(int64_t tokens, int64_t head_size);

int64_t chunk_workspace_floats(int64_t heads, int64_t kv_heads, int64_t head_size);

// All tokens are one chunk: of one slot, at positions that follow each other.
template <typename T>
void attend_chunk(const CachedAttention<T>& call);

}  // namespace ridge::backends::cpu
