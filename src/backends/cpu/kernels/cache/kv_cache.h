// SPDX-License-Identifier: Apache-2.0
// The cells of a KV cache on CPUs, and writing tokens there; backends/kernels/kv_cache.h says where
// positions lie. Not attention: that is cached_attention.h.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/kernels/kv_cache.h"

namespace ridge::backends::cpu {

// Cells of one slot that lie one after the other in one block.
struct CellRun {
  int64_t row;    // of the cache
  int64_t index;  // of the first, among all cells walked
  int64_t count;
};

// Calls visit(CellRun) for `count` cells from `first` on, around the ring.
template <typename Visit>
inline void for_each_run(const CacheCells& cells,
                         int64_t slot,
                         int64_t first,
                         int64_t count,
                         const Visit& visit) {
  const int64_t ring = cells.ring();
  for (int64_t done = 0; done < count;) {
    const int64_t cell = (first + done) % ring;
    const int64_t left = cells.block_tokens - cell % cells.block_tokens;
    const int64_t run = std::min(left, count - done);
    visit(CellRun{cells.row(slot, cell), done, run});
    done += run;
  }
}

// What is out of range, before anything is written.
struct CacheFault {
  enum Kind { kNone, kPosition, kSlot, kBlock } kind = kNone;
  int64_t index = 0;  // the token, or the entry of the table
};
// Positions from -1 to the most; slots of tokens
// that are not padding; every entry of the table.
CacheFault check_cells(const CacheCells& cells);

// In the order of the tokens; the cells must be checked. Bound: memory, 4 N K E sizeof(T).
template <typename T>
void kv_append(const KvAppend<T>& call);

}  // namespace ridge::backends::cpu
