// SPDX-License-Identifier: Apache-2.0
// The sum over the layers, each with the ring of its kind.
#include "models/cache_shape.h"

#include "base/error.h"
#include "base/shape.h"

namespace ridge::models {

int64_t cache_bytes(const ModelConfig& c, const CacheShape& cache, DType dtype) {
  constexpr const char* kWhat = "the KV cache";
  // Bounded by validate(): no product here overflows.
  int64_t position = 2 * c.kv_heads * c.head_size * info(dtype).bytes_per_block;
  int64_t bytes = 0;
  for (int64_t layer = 0; layer < c.layers; ++layer) {
    const CacheBlocks& blocks = c.is_window(layer) ? cache.window : cache.full;
    int64_t positions = checked_product(blocks.blocks, blocks.block_tokens, kWhat);
    if (__builtin_add_overflow(bytes, checked_product(positions, position, kWhat), &bytes))
      throw memory_error("[memory] {} does not fit in 63 bits", kWhat);
  }
  return bytes;
}

}  // namespace ridge::models
