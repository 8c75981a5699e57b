// SPDX-License-Identifier: Apache-2.0
// Embedding: the forward pass gathers rows; in the backward pass each thread owns a tile of the
// table.
#include "backends/cpu/kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/embedding.cc"
#include "backends/cpu/kernels/simd_targets.h"

#include "backends/cpu/kernels/partition.h"
#include "backends/cpu/kernels/typed_dispatch.h"
#include "backends/cpu/kernels/vector_io-inl.h"

#ifndef RIDGE_CPU_EMBEDDING_TABLE_TILE_
#define RIDGE_CPU_EMBEDDING_TABLE_TILE_
namespace ridge::backends::cpu {

// One thread's part of the table.
struct TableTile {
  Range ids;      // it takes these ids of the vocabulary
  Range columns;  // it takes these columns of the width D
};

}  // namespace ridge::backends::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

// Mapping: tokens in static ranges over threads. Bound: memory, N D (sizeof(Table) + sizeof(T)),
// less for repeated tokens, whose rows are in cache.
template <typename Table, typename T>
HWY_INLINE void gather_rows(const Embedding<Table, T>& call, Range range) {
  const bool large = bytes_of<T>(call.tokens * call.width) >= kStreamBytes;
  for (int64_t n = range.begin; n < range.end; ++n) {
    const int32_t id = call.ids[n];
    const Table* from = call.table[id < 0 ? 0 : id];
    // The hardware prefetcher cannot predict rows that are selected by ids.
    const int32_t next_id = n + 1 < range.end ? call.ids[n + 1] : id;
    const Table* next = call.table[next_id < 0 ? 0 : next_id];
    T* y = call.y[n];
    const bool streamed = large && is_aligned(y);
    for_lanes(call.width, [&](auto part, int64_t i) HWY_ATTR {
      prefetch_to_l2(next + i);
      store(part, id < 0 ? hn::Zero(F32()) : load(part, from + i), y + i, streamed);
    });
  }
  if (large) hwy::FlushStream();
}
RIDGE_TARGETS(RIDGE_PAIRS, gather_rows, Embedding, Range)

// Each tile scans all tokens in order.
template <typename T>
HWY_INLINE void scatter_tile(const EmbeddingBackward<T>& call, const TableTile& tile) {
  const Range ids = tile.ids, columns = tile.columns;
  const int64_t width = columns.end - columns.begin;
  if (!call.accumulate) {
    for (int64_t v = ids.begin; v < ids.end; ++v) {
      float* row = call.d_table[v] + columns.begin;
      for_lanes(width,
                [&](auto part, int64_t i) HWY_ATTR { store(part, hn::Zero(F32()), row + i); });
    }
  }
  for (int64_t n = 0; n < call.tokens; ++n) {
    const int32_t id = call.ids[n];
    if (id < ids.begin || id >= ids.end) continue;
    const T* dy = call.dy[n] + columns.begin;
    float* row = call.d_table[id] + columns.begin;
    for_lanes(width, [&](auto part, int64_t i) HWY_ATTR {
      store(part, hn::Add(load(part, dy + i), load(part, row + i)), row + i);
    });
  }
}
RIDGE_TARGETS(RIDGE_FLOATS, scatter_tile, EmbeddingBackward, const TableTile&)

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridge::backends::cpu {

RIDGE_DISPATCH(RIDGE_PAIRS, run_range, gather_rows, Embedding, Range)
template <typename Table, typename T>
int64_t embedding(const Embedding<Table, T>& call) {
  const int64_t bad = first_bad_row(call.ids, call.tokens, call.vocabulary);
  if (bad != kNoBadRow) return bad;
  const int64_t elements = call.tokens * call.width;
  const int64_t bytes = bytes_of<Table>(elements) + bytes_of<T>(elements);
  for_each_range(call.tokens, parts_for(bytes), [&](Range range) { run_range(call, range); });
  return kNoBadRow;
}
RIDGE_INSTANCES(RIDGE_PAIRS, int64_t, embedding, Embedding)

RIDGE_DISPATCH(RIDGE_FLOATS, scatter, scatter_tile, EmbeddingBackward, const TableTile&)
// Mapping: the table in tiles of vocabulary x columns, one per thread. No two threads write one
// element, and each tile adds in token order. Columns are split first: text uses few ids often, so
// a split of the vocabulary alone would leave most threads idle. A column tile of 64 floats is four
// cache lines. Bound: memory, V D 4 written unless accumulating, plus N D sizeof(T) read and the
// rows touched, twice.
template <typename T>
int64_t embedding_backward(const EmbeddingBackward<T>& call) {
  const int64_t bad = first_bad_row(call.ids, call.tokens, call.vocabulary);
  if (bad != kNoBadRow) return bad;
  constexpr int64_t kColumns = 64;
  const int64_t table_bytes = call.accumulate ? 0 : call.vocabulary * call.width * 4;
  const int64_t parts = parts_for(table_bytes + call.tokens * call.width * 8);
  const int64_t across = std::clamp<int64_t>(call.width / kColumns, 1, parts);
  const int64_t down = parts / across;
  for_each_part(parts, [&](int64_t index) {
    if (index >= across * down) return;
    const Range columns = part_of(call.width, across, index % across, kColumns);
    scatter(call, {part_of(call.vocabulary, down, index / across), columns});
  });
  return kNoBadRow;
}
RIDGE_INSTANCES(RIDGE_FLOATS, int64_t, embedding_backward, EmbeddingBackward)

}  // namespace ridge::backends::cpu
#endif  // HWY_ONCE
