// SPDX-License-Identifier: Apache-2.0
// Builds the operands of kernels that work on a KV cache. Contains no binding.
#pragma once

#include <algorithm>
#include <limits>

#include "backends/backend.h"
#include "backends/kernels/kv_cache.h"

namespace ridge::backends {

inline constexpr int64_t kAnyPosition = std::numeric_limits<int32_t>::max();

// Inputs `index`, `index` + 1 and `index` + 2 are the positions, the slots and the block table.
inline CacheCells cells_of(const BindCall& call,
                           const Shape& cache,
                           size_t index,
                           int64_t most_position = kAnyPosition) {
  const Shape& table = call.inputs[index + 2].type.shape;
  CacheCells cells;
  cells.tokens = call.inputs[index].type.shape[0];
  cells.positions = call.inputs[index].as<const int32_t>();
  cells.slots = call.inputs[index + 1].as<const int32_t>();
  cells.block_table = call.inputs[index + 2].as<const int32_t>();
  cells.slot_count = table[0];
  cells.blocks_per_slot = table[1];
  cells.blocks = cache[0];
  cells.block_tokens = cache[1];
  cells.most_position = most_position;
  return cells;
}

// The largest position of a token, which an attention's context attribute bounds.
inline int64_t most_position(const Attrs& attention) {
  return std::min(attention.integer("context") - 1, kAnyPosition);
}

template <typename T>
Cache<T> cache_of(const Operand& operand) {
  return {operand.as<T>(), operand.type.shape[2], operand.type.shape[3]};
}

}  // namespace ridge::backends
