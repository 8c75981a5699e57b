// SPDX-License-Identifier: Apache-2.0
// Shared by the ops on a KV cache: its extents, its shape rule, and the mapping of positions to
// cells.
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/op.h"

namespace ridge::ops {

// A cache [blocks, block_tokens, K, E]. A slot's ring of cells is its row of the block table
// [S, blocks_per_slot]; position p of slot s is in cell p mod ring. positions[N] and slots[N]
// identify the token in each row of the flat axis. Position -1 is padding: it is never written,
// never counted, and zero in outputs.
struct CacheExtents {
  int64_t tokens, slots, blocks_per_slot, blocks, block_tokens, kv_heads, head_size;
  int64_t ring() const { return blocks_per_slot * block_tokens; }
};

// positions, slots and the table are the consecutive inputs from `index`. Throws usage Errors.
CacheExtents cache_extents(std::string_view op, const Call& call, const Type& cache, size_t index);

// The row of [blocks * block_tokens] that contains the cell.
int64_t cache_row(const CacheExtents& extents, const Tensor64& table, int64_t slot, int64_t cell);

// The latest position not after `position` whose cell is `cell`; negative if there is none yet.
inline int64_t position_in_cell(int64_t position, int64_t cell, int64_t ring) {
  int64_t behind = (position - cell) % ring;
  return position - (behind < 0 ? behind + ring : behind);
}

// Test inputs: positions with some padding, tokens of all slots in turn, blocks in order.
CaseInput sample_positions(int64_t tokens, int64_t bound);
CaseInput sample_slots(int64_t tokens, int64_t slots);
CaseInput sample_block_table(int64_t slots, int64_t blocks_per_slot);

}  // namespace ridge::ops
