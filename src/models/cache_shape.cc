// SPDX-License-Identifier: Apache-2.0
// Sums the sizes of the layers, each with the ring of its kind of layer.
#include "models/cache_shape.h"

#include <algorithm>

#include "base/error.h"
#include "base/shape.h"
#include "ops/kv_cache.h"

namespace ridge::models {
namespace {

constexpr const char* kWhat = "the KV cache";

// Bytes of the keys and values of `positions` positions in one layer.
int64_t layer_bytes(const ModelConfig& config, int64_t positions, DType dtype, int64_t ranks) {
  // Bounded by validate(): this does not overflow.
  int64_t head = config.head_size * info(dtype).bytes_per_block;
  if (ops::has_scales(dtype)) head += info(DType::kF32).bytes_per_block;  // its scale
  int64_t position = 2 * std::max<int64_t>(config.kv_heads / ranks, 1) * head;
  return checked_product(positions, position, kWhat);
}

void add(int64_t& sum, int64_t bytes) {
  if (__builtin_add_overflow(sum, bytes, &sum))
    throw memory_error("[memory] {} does not fit in 63 bits", kWhat);
}

}  // namespace

CacheShape cache_shape(const CacheNeeds& n) {
  if (!n.shares && !n.pages) {
    const int64_t ring = n.window > 0 ? std::min(n.window + n.chunk - 1, n.capacity) : n.capacity;
    return {n.slots, {n.slots, n.capacity, 1}, {n.slots, ring, 1}, n.dtype, n.ranks};
  }
  // The positions that the tokens of a run attend to may begin and end inside a block.
  const int64_t seen = n.window + n.chunk - 1 + kBlockTokens - 1;
  const int64_t reach = n.window > 0 ? std::min(seen, n.capacity) : n.capacity;
  const int64_t full = blocks_of(n.capacity), window = blocks_of(reach);
  return {n.slots,
          {n.kv_capacity_tokens > 0 ? blocks_of(n.kv_capacity_tokens)
                                    : checked_product(n.slots, full, kWhat),
           kBlockTokens, full},
          {checked_product((n.shares ? 2 : 1) * n.slots, window, kWhat), kBlockTokens, window},
          n.dtype,
          n.ranks};
}

int64_t cache_bytes(const ModelConfig& config, const CacheShape& cache) {
  int64_t sum = 0;
  for (int64_t layer = cache.first_layer; layer < std::min(cache.end_layer, config.layers);
       ++layer) {
    const CacheBlocks& blocks = config.is_window(layer) ? cache.window : cache.full;
    add(sum, layer_bytes(config, checked_product(blocks.blocks, blocks.block_tokens, kWhat),
                         cache.dtype, cache.ranks));
  }
  return sum;
}

int64_t seen_bytes(const ModelConfig& config, int64_t context, DType dtype, int64_t ranks) {
  int64_t sum = 0;
  for (int64_t layer = 0; layer < config.layers; ++layer)
    add(sum,
        layer_bytes(config, config.is_window(layer) ? std::min(config.window, context) : context,
                    dtype, ranks));
  return sum;
}

}  // namespace ridge::models
