// SPDX-License-Identifier: Apache-2.0
// The extents of a KV cache, in blocks of positions. Any sequence may have any block: a block table
// says which block holds which positions of a slot. No memory is allocated here.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "models/config.h"

namespace ridge::models {

// The blocks of one kind of layer. A slot's ring has blocks_per_slot * block_tokens positions:
// position p is in cell p mod ring.
struct CacheBlocks {
  int64_t blocks = 1;  // in memory, for all slots together
  int64_t block_tokens = 1;
  int64_t blocks_per_slot = 1;
  int64_t ring() const { return blocks_per_slot * block_tokens; }
  bool operator==(const CacheBlocks& other) const = default;
};

struct CacheShape {
  int64_t slots = 1;   // S, sequences at once
  CacheBlocks full;    // layers that attend to all positions
  CacheBlocks window;  // layers that attend to a window: window + largest chunk - 1 positions
  DType dtype = DType::kF32;  // keys and values: f32, bf16, or quants with scales (ops/kv_cache.h)
  int64_t ranks = 1;          // they divide the KV heads
  int64_t first_layer = 0, end_layer = kMostLayers;  // the rank has those between
  bool operator==(const CacheShape& other) const = default;
};

// Tokens of a block that sequences share. Fewer would cost more entries of the table, more would
// leave more of a sequence's last block empty and would make shared prefixes coarser.
inline constexpr int64_t kBlockTokens = 16;
inline int64_t blocks_of(int64_t positions) {
  return positions / kBlockTokens + (positions % kBlockTokens != 0 ? 1 : 0);
}

struct CacheNeeds {
  int64_t slots = 1;
  int64_t capacity = 1;  // positions of a slot at most
  int64_t window = 0;    // window of window layers; 0: there are none
  int64_t chunk = 1;     // tokens of a slot in one run at most
  DType dtype = DType::kF32;
  // Whether sequences share blocks. If so, window layers have as much memory again for those of
  // sequences that have ended. If not, each slot has one block of its own, of all its positions.
  bool shares = false;
  // Without sharing: whether a slot's positions lie in blocks of kBlockTokens instead of one block.
  bool pages = false;
  int64_t kv_capacity_tokens = 0;  // shared by all slots; 0: `capacity` for each slot
  int64_t ranks = 1;
};
CacheShape cache_shape(const CacheNeeds& needs);

// Bytes of the keys and values, with their scales, that a rank has. cache_bytes counts the whole
// cache of its layers, in which window layers hold only their ring. seen_bytes counts the attended
// KV entries of the last token of `context`, in the layers of all stages. Both throw an
// out-of-memory Error if the result does not fit in 63 bits.
int64_t cache_bytes(const ModelConfig& config, const CacheShape& cache);
int64_t seen_bytes(const ModelConfig& config, int64_t context, DType dtype, int64_t ranks = 1);

}  // namespace ridge::models
