// SPDX-License-Identifier: Apache-2.0
// The extents of a KV cache: blocks of positions, as many a slot as a ring of its layers' reach
// needs. Contiguous means one block a slot. It holds no memory.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "models/config.h"

namespace ridge::models {

// The blocks of one kind of layer. A slot's ring has blocks_per_slot * block_tokens positions:
// position p lies in cell p mod ring.
struct CacheBlocks {
  int64_t blocks = 1;  // of all slots
  int64_t block_tokens = 1;
  int64_t blocks_per_slot = 1;
  int64_t ring() const { return blocks_per_slot * block_tokens; }
  bool operator==(const CacheBlocks& other) const = default;
};

struct CacheShape {
  int64_t slots = 1;   // S, sequences at once
  CacheBlocks full;    // layers that see everything
  CacheBlocks window;  // layers that see a window: window + largest chunk - 1 positions
  bool operator==(const CacheShape& other) const = default;
};

// One block a slot. `capacity` positions, chunks of at most `chunk` tokens.
inline CacheShape contiguous_cache(int64_t slots, int64_t capacity, int64_t window, int64_t chunk) {
  int64_t reach = window > 0 && window + chunk - 1 < capacity ? window + chunk - 1 : capacity;
  return {slots, {slots, capacity, 1}, {slots, reach, 1}};
}

// Keys and values in all layers: of the whole cache, whose window layers hold their ring only, and
// of what one token sees that is the last of `context`. Out-of-memory Errors where they do not fit
// in 63 bits.
int64_t cache_bytes(const ModelConfig& config, const CacheShape& cache, DType dtype);
int64_t seen_bytes(const ModelConfig& config, int64_t context, DType dtype);

}  // namespace ridge::models
