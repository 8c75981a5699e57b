// SPDX-License-Identifier: Apache-2.0
// Attention of a prompt's tokens over their cache, in tiles of queries and keys. Private to
// cached_attention.cc, which finds the chunks of a prompt.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/cache/cached_attention.h"

namespace ridge::backends::cpu {

// The rows of a block of scores. With fewer tokens, most of a tile's work is padding.
inline constexpr int64_t kChunkTokens = 16;

// Whether a call with `tokens` tokens computes chunks with attend_chunk.
bool takes_chunks(int64_t tokens, int64_t head_size);

int64_t chunk_workspace_floats(int64_t heads, int64_t kv_heads, int64_t head_size);

// All tokens form one chunk: one slot, consecutive positions.
template <typename T, typename C>
void attend_chunk(const CachedAttention<T, C>& call);

}  // namespace ridge::backends::cpu
