// SPDX-License-Identifier: Apache-2.0
// Copies whole heads into the cache. Heads are split over threads, so that tokens that share a cell
// are written in order.
#include "backends/cpu/kernels/cache/kv_cache.h"

#include <cstring>

#include "backends/cpu/kernels/partition.h"
#include "backends/cpu/kernels/typed_dispatch.h"

namespace ridge::backends::cpu {

CacheFault check_cells(const CacheCells& cells) {
  for (int64_t n = 0; n < cells.tokens; ++n) {
    const int32_t position = cells.positions[n];
    if (position < -1 || position > cells.most_position) return {CacheFault::kPosition, n};
    if (position >= 0 && (cells.slots[n] < 0 || cells.slots[n] >= cells.slot_count))
      return {CacheFault::kSlot, n};
  }
  const int64_t entries = cells.slot_count * cells.blocks_per_slot;
  for (int64_t i = 0; i < entries; ++i)
    if (cells.block_table[i] < 0 || cells.block_table[i] >= cells.blocks)
      return {CacheFault::kBlock, i};
  return {};
}

namespace {

// cache[cell of token n] = x[n].
template <typename T>
void append(const CacheCells& cells, const TokenHeads<const T>& x, const Cache<T>& cache) {
  const int64_t bytes = bytes_of<T>(cache.head_size);
  const int64_t parts = parts_for(2 * cells.tokens * cache.kv_heads * bytes);
  for_each_range(cache.kv_heads, parts, [&](Range heads) {
    for (int64_t n = 0; n < cells.tokens; ++n) {
      if (cells.positions[n] < 0) continue;
      const int64_t row = cells.row(cells.slots[n], cells.positions[n] % cells.ring());
      for (int64_t h = heads.begin; h < heads.end; ++h)
        std::memcpy(cache.head(row, h), x.head(n, h), static_cast<size_t>(bytes));
    }
  });
}

}  // namespace

template <typename T>
void kv_append(const KvAppend<T>& call) {
  append(call.cells, call.k, call.keys);
  append(call.cells, call.v, call.values);
}
RIDGE_TYPED_INSTANCES(void, kv_append, KvAppend)

}  // namespace ridge::backends::cpu
