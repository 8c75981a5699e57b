// SPDX-License-Identifier: Apache-2.0
// Shared by the ops on a KV cache: its extents, its shape rule, and the mapping of positions to
// cells.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "graph/op.h"

namespace ridge::ops {

// A cache [blocks, block_tokens, K, E]. A slot's ring of cells is its row of the block table
// [S, blocks_per_slot]; position p of slot s is in cell p mod ring. positions[N] and slots[N]
// identify the token in each row of the flat axis. Position -1 is padding: it is never written,
// never counted, and zero in outputs.
//
// A cache holds keys or values in the type of k and v; if that is fp32, also in bf16, and if it is
// fp32 or bf16, also in i8 or fp8 (f8_e4m3). bf16 is rounded to nearest even. A cache of i8 or fp8
// holds quants, and its scales f32[blocks, K, block_tokens] are an operand of their own: the value
// of a quant is quant times scale. The scale of a head of a token is the largest magnitude of its
// E values divided by the largest quant, 127 or 448, and its quants are the values times 1 / scale,
// rounded to nearest even, all in fp32. If the scale would be denormal, it and the quants are 0. If
// a value is not finite, the scale is NaN and the quants are 0: a token that attends to it is NaN.
struct CacheExtents {
  int64_t tokens, slots, blocks_per_slot, blocks, block_tokens, kv_heads, head_size;
  int64_t ring() const { return blocks_per_slot * block_tokens; }
};

// positions, slots and the table are the consecutive inputs from `index`. Throws usage Errors.
CacheExtents cache_extents(std::string_view op, const Call& call, const Type& cache, size_t index);

inline bool has_scales(DType cache) { return cache == DType::kI8 || cache == DType::kF8E4M3; }
// Whether a cache of a type may hold tokens of another type.
inline bool can_hold(DType cache, DType tokens) {
  if (cache == tokens) return true;
  if (cache == DType::kBF16) return tokens == DType::kF32;
  return has_scales(cache) && (tokens == DType::kF32 || tokens == DType::kBF16);
}
inline bool has_scales(const Type& cache) { return has_scales(cache.dtype); }
Type scales_of(const Type& cache);

// The inputs of an op on caches: the indices of its tokens and of its first cache, its inputs other
// than scales, and its caches.
struct CacheInputs {
  size_t tokens, cache;
  size_t plain, caches;
};

// Checks that the cache may hold tokens of their type, and that the call has the plain inputs,
// followed by the scales of each cache if it has some. Throws usage Errors.
void expect_cache(std::string_view op, const Call& call, const CacheInputs& at);

// Rounds a head to quants of the cache's type and returns their scale.
double quantize_head(DType cache, const double* values, int64_t count, double* quants);

// The index of the scale of one head in one of the rows [blocks * block_tokens].
inline int64_t scale_index(const CacheExtents& e, int64_t row, int64_t head) {
  return (row / e.block_tokens * e.kv_heads + head) * e.block_tokens + row % e.block_tokens;
}

// The keys or values of a cache as a reference reads them.
struct CachedValues {
  const CacheExtents& extents;
  const Tensor64& cache;
  const Tensor64* scales;  // null: the cache holds the values themselves
  double at(int64_t row, int64_t head, int64_t element) const;
};
// Reads the cache that is input `cache`; its scales, if it has some, are input `scales`.
CachedValues cached_values(const CacheExtents& extents,
                           Inputs64 inputs,
                           size_t cache,
                           size_t scales);

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
// The cases, and each with its caches, which are the inputs `caches`, in bf16 and in i8, and with
// tokens in bf16 and caches in i8 and in fp8.
std::vector<Case> with_narrow_caches(std::vector<Case> cases, std::initializer_list<size_t> caches);

}  // namespace ridge::ops
