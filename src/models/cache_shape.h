// SPDX-License-Identifier: Apache-2.0
// The extents of a KV cache, in blocks of positions. A slot has enough blocks for a ring of the
// positions that its layers can attend to. A contiguous cache has one block per slot. No memory is
// allocated here.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "models/config.h"

namespace ridge::models {

// The blocks of one kind of layer. A slot's ring has blocks_per_slot * block_tokens positions:
// position p is in cell p mod ring.
struct CacheBlocks {
  int64_t blocks = 1;  // of all slots
  int64_t block_tokens = 1;
  int64_t blocks_per_slot = 1;
  int64_t ring() const { return blocks_per_slot * block_tokens; }
  bool operator==(const CacheBlocks& other) const = default;
};

struct CacheShape {
  int64_t slots = 1;   // S, sequences at once
  CacheBlocks full;    // layers that attend to all positions
  CacheBlocks window;  // layers that attend to a window: window + largest chunk - 1 positions
  DType dtype = DType::kF32;  // of keys and values: f32, bf16, or i8 with scales (ops/kv_cache.h)
  bool operator==(const CacheShape& other) const = default;
};

// One block per slot, `capacity` positions, and chunks of at most `chunk` tokens.
inline CacheShape contiguous_cache(int64_t slots,
                                   int64_t capacity,
                                   int64_t window,
                                   int64_t chunk,
                                   DType dtype = DType::kF32) {
  int64_t reach = window > 0 && window + chunk - 1 < capacity ? window + chunk - 1 : capacity;
  return {slots, {slots, capacity, 1}, {slots, reach, 1}, dtype};
}

// Bytes of the keys and values in all layers, with their scales. cache_bytes counts the whole cache,
// in which window layers hold only their ring. seen_bytes counts the attended KV entries of the last
// token of `context`. Both throw an out-of-memory Error if the result does not fit in 63 bits.
int64_t cache_bytes(const ModelConfig& config, const CacheShape& cache);
int64_t seen_bytes(const ModelConfig& config, int64_t context, DType dtype);

}  // namespace ridge::models
