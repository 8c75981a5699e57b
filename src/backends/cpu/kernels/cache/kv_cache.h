// SPDX-License-Identifier: Apache-2.0
// Where the positions of sequences lie in a cache of blocks, and writing tokens there. Not
// attention: that is cached_attention.h. T is float or uint16_t (bf16).
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/kernels/token_heads.h"

namespace ridge::backends::cpu {

// Which token each row of the flat axis is, and the rings of the slots. Position p of a slot lies
// in cell p mod ring; position -1 is padding.
struct CacheCells {
  int64_t tokens = 0;                  // N
  const int32_t* positions = nullptr;  // [N]
  const int32_t* slots = nullptr;      // [N]
  const int32_t* table = nullptr;      // [slot_count, blocks_per_slot]
  int64_t slot_count = 0;
  int64_t blocks_per_slot = 0;
  int64_t blocks = 0;
  int64_t block_tokens = 0;

  int64_t ring() const { return blocks_per_slot * block_tokens; }
  // The row of [blocks * block_tokens] of a slot's cell.
  int64_t row(int64_t slot, int64_t cell) const {
    return table[slot * blocks_per_slot + cell / block_tokens] * block_tokens + cell % block_tokens;
  }
};

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
// Positions from -1 to most_position; slots of tokens
// that are not padding; every entry of the table.
CacheFault check_cells(const CacheCells& cells, int64_t most_position);

// A cache [blocks, block_tokens, K, E].
template <typename T>
struct Cache {
  T* data = nullptr;
  int64_t kv_heads = 0;   // K
  int64_t head_size = 0;  // E
  // A token's values for one head.
  T* head(int64_t row, int64_t head) const { return data + (row * kv_heads + head) * head_size; }
};

// cache[cell of token n] = x[n], in the order of the tokens; the cells must be checked. Bound:
// memory, 2 N K E sizeof(T).
template <typename T>
void append(const CacheCells& cells, const TokenHeads<const T>& x, const Cache<T>& cache);

}  // namespace ridge::backends::cpu
