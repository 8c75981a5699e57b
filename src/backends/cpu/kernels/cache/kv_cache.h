// SPDX-License-Identifier: Apache-2.0
// The cells of a KV cache on CPUs, and writing tokens to them. backends/kernels/kv_cache.h defines
// where positions lie; cached_attention.h has attention.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/kernels/kv_cache.h"

namespace ridge::backends::cpu {

// Consecutive cells of one slot in one block.
struct CellRun {
  int64_t row;    // the run begins there in the cache
  int64_t index;  // index of the first cell among all cells read
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

// The first index that is out of range. It is found before anything is written.
struct CacheFault {
  enum FaultKind { kNone, kPosition, kSlot, kBlock } kind = kNone;
  int64_t index = 0;  // the token, or the entry of the block table
};
// Checks that positions are from -1 to most_position, the slots of tokens that are not padding, and
// every entry of the block table.
CacheFault check_cells(const CacheCells& cells);

// Writes tokens in their order, rounded as ops/kv_cache.h says; check_cells must have passed.
// Bound: memory, 2 N K E (sizeof(T) + sizeof(C)).
template <typename T, typename C>
void kv_append(const KvAppend<T, C>& call);

}  // namespace ridge::backends::cpu
