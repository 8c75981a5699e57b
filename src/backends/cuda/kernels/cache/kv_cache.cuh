// SPDX-License-Identifier: Apache-2.0
// Finds the row of a position in a cache, and checks positions, slots and blocks.
#pragma once

#include "backends/cuda/kernels/cache/kv_cache.h"
#include "backends/cuda/kernels/index_check.cuh"

namespace ridge::backends::cuda {

// Where a cell lies in a cache.
struct CellPlace {
  int64_t block_row;  // row of [blocks * block_tokens] of its block's first cell
  uint32_t offset;    // in the block

  __device__ __forceinline__ int64_t row() const { return block_row + offset; }
  // The index of its scale for one head in [blocks, K, block_tokens].
  template <typename C>
  __device__ __forceinline__ int64_t scale(const Cache<C>& cache, int64_t head) const {
    return block_row * cache.kv_heads + head * cache.block_tokens + offset;
  }
};

// The ring of cells of one slot. A block out of range is replaced by the last block: the data read
// is meaningless, but lies within the cache.
struct SlotCells {
  const int32_t* blocks;  // the slot's row of the block table
  uint32_t ring;
  uint32_t block_tokens;
  int shift = -1;  // log2 of block_tokens, which saves a division per key; -1 for other sizes
  uint32_t block_count;
  uint32_t last_block;
  int64_t first_row;  // row of its first block: contiguous rings read the table once

  __device__ __forceinline__ SlotCells(const CacheCells& cells, int32_t slot)
      : blocks(cells.block_table + slot * cells.blocks_per_slot),
        ring(static_cast<uint32_t>(cells.blocks_per_slot * cells.block_tokens)),
        block_tokens(static_cast<uint32_t>(cells.block_tokens)),
        block_count(static_cast<uint32_t>(cells.blocks_per_slot)),
        last_block(static_cast<uint32_t>(cells.blocks - 1)),
        first_row(row_of_block(0)) {
    if ((block_tokens & (block_tokens - 1)) == 0) shift = __ffs(static_cast<int>(block_tokens)) - 1;
  }

  __device__ __forceinline__ int64_t row_of_block(uint32_t index) const {
    const uint32_t block = min(static_cast<uint32_t>(blocks[index]), last_block);
    return static_cast<int64_t>(block) * block_tokens;
  }
  __device__ __forceinline__ CellPlace place(uint32_t cell) const {
    if (block_count == 1) return {first_row, cell};
    const uint32_t at = shift >= 0 ? cell >> shift : cell / block_tokens;
    return {row_of_block(at), cell - at * block_tokens};
  }
  // The row of [blocks * block_tokens] that holds a cell.
  __device__ __forceinline__ int64_t row(uint32_t cell) const { return place(cell).row(); }
  // The same for several cells, whose blocks are looked up at the same time.
  template <int kCount>
  __device__ __forceinline__ void find_rows(const uint32_t (&cell)[kCount],
                                            int64_t (&rows)[kCount]) const {
    if (block_count == 1) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) rows[i] = first_row + cell[i];
      return;
    }
    uint32_t at[kCount];
    if (shift >= 0) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) at[i] = cell[i] >> shift;
    } else {
#pragma unroll
      for (int i = 0; i < kCount; ++i) at[i] = cell[i] / block_tokens;
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      rows[i] = row_of_block(at[i]) + (cell[i] - at[i] * block_tokens);
  }
};

// The token's position, or -1 if it is padding.
__device__ __forceinline__ int32_t live_position(const CacheCells& cells, int64_t token) {
  const int32_t slot = cells.slots[token], position = cells.positions[token];  // parallel loads
  const bool is_live =
      slot >= 0 && slot < cells.slot_count && position >= 0 && position <= cells.most_position;
  return is_live ? position : -1;
}

// The row of [blocks * block_tokens] to which the token's keys go, or -1 if it is padding.
__device__ __forceinline__ int64_t row_of_token(const CacheCells& cells, int64_t token) {
  const int32_t position = live_position(cells, token);
  if (position < 0) return -1;
  const SlotCells slot(cells, cells.slots[token]);
  return slot.row(static_cast<uint32_t>(position) % slot.ring);
}

// Whether one of this thread's share of later tokens goes to the same row; `count` threads share
// the search.
__device__ __forceinline__ bool sees_later(const CacheCells& cells,
                                           int64_t token,
                                           int64_t row,
                                           int thread,
                                           int count) {
  bool is_later = false;
#pragma unroll 4
  for (int64_t other = token + 1 + thread; other < cells.tokens; other += count)
    is_later |= row_of_token(cells, other) == row;
  return is_later;
}

// Calls visit(0), ..., visit(count - 1), each in one thread of the grid, all of whose threads call
// this.
template <typename Visit>
__device__ __forceinline__ void share_in_grid(int64_t count, const Visit& visit) {
  const int64_t block =
      blockIdx.x +
      static_cast<int64_t>(gridDim.x) * (blockIdx.y + static_cast<int64_t>(gridDim.y) * blockIdx.z);
  const int64_t threads = static_cast<int64_t>(gridDim.x) * gridDim.y * gridDim.z * blockDim.x;
  for (int64_t i = block * blockDim.x + threadIdx.x; i < count; i += threads) visit(i);
}

// Called by every thread of a launch.
__device__ __forceinline__ void note_bad_blocks(const CacheCells& cells) {
  if (cells.bad_block == nullptr) return;
  share_in_grid(cells.slot_count * cells.blocks_per_slot, [&](int64_t i) {
    const int32_t block = cells.block_table[i];
    if (block < 0 || block >= cells.blocks) note_row(i, cells.bad_block);
  });
}
__device__ __forceinline__ void note_bad_cells(const CacheCells& cells) {
  if (cells.bad_position == nullptr) return;
  share_in_grid(cells.tokens, [&](int64_t n) {
    const int32_t position = cells.positions[n], slot = position < 0 ? 0 : cells.slots[n];
    if (position < -1 || position > cells.most_position) note_row(n, cells.bad_position);
    if (slot < 0 || slot >= cells.slot_count) note_row(n, cells.bad_slot);
  });
  note_bad_blocks(cells);
}

}  // namespace ridge::backends::cuda
