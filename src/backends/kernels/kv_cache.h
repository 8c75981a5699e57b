// SPDX-License-Identifier: Apache-2.0
// Arguments of kernels on a KV cache: where the tokens of a run lie in it, and kv_append's keys and
// values. A cache is [blocks, block_tokens, K, E]. Position p of slot s lies in cell p mod ring of
// the blocks in row s of the block table. T, the type of tokens, is float or uint16_t (bf16); C,
// that of the cache, is T or a narrower type (ops/kv_cache.h): under float uint16_t or int8_t,
// under uint16_t int8_t or F8E4M3. Quants, which have 8 bits, have scales.
#pragma once

#include <cstdint>
#include <type_traits>

#include "backends/kernels/token_heads.h"

namespace ridge::backends {

// The bits of a number in fp8 with four bits of exponent.
struct F8E4M3 {
  uint8_t bits;
};

// A position of -1 is padding.
struct CacheCells {
  int64_t tokens = 0;                    // N
  const int32_t* positions = nullptr;    // [N]
  const int32_t* slots = nullptr;        // [N]
  const int32_t* block_table = nullptr;  // [slot_count, blocks_per_slot]
  int64_t slot_count = 0;
  int64_t blocks_per_slot = 0;
  int64_t blocks = 0;
  int64_t block_tokens = 0;
  int64_t most_position = 0;
  bool is_checked = true;  // False if an earlier node of the graph checks the same.
  // For a device that cannot stop at a fault (cuda/kernels/watched.h): words that receive the first
  // token whose position or slot is out of range, and the first block table entry that is. Else
  // null.
  int32_t* bad_position = nullptr;
  int32_t* bad_slot = nullptr;
  int32_t* bad_block = nullptr;

  int64_t ring() const { return blocks_per_slot * block_tokens; }
  // The row in [blocks * block_tokens] of a slot's cell.
  int64_t row(int64_t slot, int64_t cell) const {
    return block_table[slot * blocks_per_slot + cell / block_tokens] * block_tokens +
           cell % block_tokens;
  }
};

template <typename C>
struct Cache {
  using Scale = std::conditional_t<std::is_const_v<C>, const float, float>;

  C* data = nullptr;      // [blocks, block_tokens, K, E]
  int64_t kv_heads = 0;   // K
  int64_t head_size = 0;  // E
  // A cache of quants alone has them.
  Scale* scales = nullptr;   // [blocks, K, block_tokens]
  int64_t block_tokens = 0;  // a block of the scales has so many

  // The E elements of one head in a row.
  RIDGE_HOST_DEVICE C* head(int64_t row, int64_t head) const {
    return data + (row * kv_heads + head) * head_size;
  }
  // The scale of one head in a row; those of the rows after it in the block follow.
  RIDGE_HOST_DEVICE Scale* scale(int64_t row, int64_t head) const {
    return scales + (row / block_tokens * kv_heads + head) * block_tokens + row % block_tokens;
  }
};

// Writes each token's keys and values to its cell; of tokens that share a cell, the last one wins.
template <typename T, typename C = T>
struct KvAppend {
  CacheCells cells;
  TokenHeads<const T> k, v;  // [N, K, E]
  Cache<C> keys, values;
};

}  // namespace ridge::backends
