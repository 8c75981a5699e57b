// SPDX-License-Identifier: Apache-2.0
// The operands of bindings that work on a KV cache. No binding here.
#pragma once

#include <algorithm>
#include <limits>

#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/cache/kv_cache.h"

namespace ridge::backends::cuda {

inline constexpr int64_t kAnyPosition = std::numeric_limits<int32_t>::max();

// positions, slots and the block table from input `index` on.
inline CacheCells cells_of(const BindCall& call,
                           const Shape& cache,
                           size_t index,
                           const char* op,
                           BindContext& context,
                           int64_t most = kAnyPosition) {
  const Shape& table = call.inputs[index + 2].type.shape;
  return {call.inputs[index].type.shape[0],
          call.inputs[index].as<const int32_t>(),
          call.inputs[index + 1].as<const int32_t>(),
          call.inputs[index + 2].as<const int32_t>(),
          table[0],
          table[1],
          cache[0],
          cache[1],
          most,
          context.faults.watch(op, "positions", "token", most + 1),
          context.faults.watch(op, "slots", "token", table[0], 0),
          context.faults.watch(op, "blocks", "entry of the block table", cache[0], 0)};
}

// Of an attention, whose graph bounds the positions of its tokens.
inline int64_t most_position(const Attrs& attention) {
  return std::min(attention.integer("context") - 1, kAnyPosition);
}

template <typename T>
Cache<T> cache_of(const Operand& operand) {
  return {operand.as<T>(), operand.type.shape[2], operand.type.shape[3]};
}

}  // namespace ridge::backends::cuda
