// SPDX-License-Identifier: Apache-2.0
// Builds the operands of kernels that work on a KV cache, and binds the kernel of the cache's type.
// Contains no op's binding.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>
#include <string>

#include "backends/kernels/kv_cache.h"
#include "backends/launcher.h"

namespace ridge::backends {

inline constexpr int64_t kAnyPosition = std::numeric_limits<int32_t>::max();

// Whether an earlier node of the graph has the same op, attributes and types of operands, and the
// same inputs `index` to `index` + 2: it checks the positions, slots and blocks of both.
inline bool is_checked_before(const BindCall& call, size_t index) {
  const auto type = [&](ValueId value) -> const Type& { return call.graph.type(value); };
  const auto cells = [&](const Node& node) { return std::span(node.inputs).subspan(index, 3); };
  for (const Node& earlier : call.graph.nodes) {
    if (&earlier == &call.node) return false;
    if (earlier.op == call.node.op && earlier.attrs == call.node.attrs &&
        std::ranges::equal(earlier.inputs, call.node.inputs, {}, type, type) &&
        std::ranges::equal(cells(earlier), cells(call.node)))
      return true;
  }
  return false;
}

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
  cells.is_checked = !is_checked_before(call, index);
  return cells;
}

// The largest position of a token, which an attention's context attribute bounds.
inline int64_t most_position(const Attrs& attention) {
  return std::min(attention.integer("context") - 1, kAnyPosition);
}

template <typename C>
Cache<C> cache_of(const Operand& operand) {
  return {operand.as<C>(), operand.type.shape[2], operand.type.shape[3]};
}
// Input `cache`, and, if it has quants, their scales, input `scales`.
template <typename C>
Cache<C> cache_of(const BindCall& call, size_t cache, size_t scales) {
  Cache<C> made = cache_of<C>(call.inputs[cache]);
  if constexpr (sizeof(C) == 1) {
    made.scales = call.inputs[scales].as<typename Cache<C>::Scale>();
    made.block_tokens = call.inputs[cache].type.shape[1];
  }
  return made;
}

// Calls fill<T, C>() with the types of a call's tokens and of its cache.
template <typename Fill>
auto by_cache_dtype(DType tokens, DType cache, const Fill& fill) {
  if (tokens == DType::kBF16 && cache == DType::kI8)
    return fill.template operator()<uint16_t, int8_t>();
  if (tokens == DType::kBF16 && cache == DType::kF8E4M3)
    return fill.template operator()<uint16_t, F8E4M3>();
  if (tokens == DType::kBF16) return fill.template operator()<uint16_t, uint16_t>();
  if (cache == DType::kBF16) return fill.template operator()<float, uint16_t>();
  if (cache == DType::kI8) return fill.template operator()<float, int8_t>();
  return fill.template operator()<float, float>();
}

// The inputs of a call that have the types of the tokens and of the cache.
struct CacheInputs {
  size_t tokens;
  size_t cache;
};

// Sets bind, unsupported and takes_quant_cache. fill<T, C>(call) builds the kernel's arguments.
template <template <typename, typename> typename Given, typename Fill>
Kernel with_cache(Kernel kernel, CacheInputs in, CacheLaunchers<Given> launchers, Fill fill) {
  kernel.takes_quant_cache = true;
  kernel.unsupported = [=](const Call& call) -> std::string {
    const DType tokens = call.inputs[in.tokens].dtype, cache = call.inputs[in.cache].dtype;
    const bool has_launcher = (cache != DType::kF8E4M3 || tokens == DType::kBF16) &&
                              by_cache_dtype(tokens, cache, [&]<typename T, typename C>() {
                                return launchers.template of<Given<T, C>>() != nullptr;
                              });
    if (has_launcher) return "";
    return fmt::format("expected another type of KV cache for tokens in {} on this backend, got {}",
                       ridge::name(tokens), ridge::name(cache));
  };
  kernel.bind = [=](const BindCall& call) -> Launch {
    return by_cache_dtype(call.inputs[in.tokens].type.dtype, call.inputs[in.cache].type.dtype,
                          [&]<typename T, typename C>() {
                            return launchers(fill.template operator()<T, C>(call), op_of(call));
                          });
  };
  return kernel;
}

// Sets how rope_append and append_attention rotate and norm heads.
template <typename Given>
void set_rotation(const BindCall& call, Given& given) {
  given.cos = call.inputs[3].as<const float>();
  given.sin = call.inputs[4].as<const float>();
  given.interleaved = call.attrs().flag("interleaved");
  if (call.attrs().flag("norms")) {
    given.q_norm = call.inputs[8].as<const float>();
    given.k_norm = call.inputs[9].as<const float>();
  }
  given.eps = static_cast<float>(call.attrs().real("eps"));
  given.norm_offset = static_cast<float>(call.attrs().real("offset"));
}

}  // namespace ridge::backends
