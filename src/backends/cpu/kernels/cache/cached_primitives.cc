// SPDX-License-Identifier: Apache-2.0
// The steps of attention over a KV cache as separate kernels: scores, mask, weighted sums of
// values. cached_attention.cc has all of it in one kernel.
#include "backends/cpu/kernels/cache/cached_attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/cache/cached_primitives.cc"
#include "backends/cpu/kernels/simd_targets.h"

#include "backends/cpu/kernels/cache/cells-inl.h"
#include "backends/cpu/kernels/element.h"
#include "backends/cpu/kernels/partition.h"
#include "backends/cpu/kernels/typed_dispatch.h"
#include "backends/cpu/kernels/vector_io-inl.h"
#include "base/bf16.h"
#include "base/shape.h"

// Compiled once, not per target, so it has its own guard.
#ifndef RIDGE_CPU_CACHED_PRIMITIVES_ROW_
#define RIDGE_CPU_CACHED_PRIMITIVES_ROW_
namespace ridge::backends::cpu {

// One row of the matrix of scores. `scratch` holds the row, and q or the sums of one head.
struct ScoresRow {
  int64_t token;
  int64_t head;
  float* scratch;
};

}  // namespace ridge::backends::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

template <typename From, typename To>
HWY_INLINE void convert_row(const From* from, int64_t count, To* to) {
  for_lanes(count,
            [&](auto part, int64_t i) HWY_ATTR { store(part, load(part, from + i), to + i); });
}

// Multiplies the columns of a row by the scales of their cells.
template <typename Step, typename C>
HWY_INLINE void scale_columns(const Step& call,
                              const Cache<const C>& cache,
                              int64_t token,
                              int64_t kv_head,
                              float* row) {
  if constexpr (sizeof(C) == 1)
    for_each_run(call.cells, call.cells.slots[token], 0, call.columns,
                 [&](const CellRun& run) HWY_ATTR {
                   const float* scales = cache.scale(run.row, kv_head);
                   float* x = row + run.index;
                   for_lanes(run.count, [&](auto part, int64_t i) HWY_ATTR {
                     store(part, hn::Mul(load(part, x + i), load(part, scales + i)), x + i);
                   });
                 });
}

template <typename T, typename C>
HWY_INLINE void score_columns(const CachedScores<T, C>& call, const ScoresRow& row) {
  T* y = call.scores + (row.token * call.heads + row.head) * call.columns;
  if (call.cells.positions[row.token] < 0) return void(std::fill_n(y, call.columns, T{0}));
  const int64_t size = call.keys.head_size, kv_head = row.head / (call.heads / call.keys.kv_heads);
  float* q = row.scratch + call.columns + kFourCells;
  convert_row(call.q.head(row.token, row.head), size, q);
  std::fill(q + size, q + round_up(size, 8), 0.0f);
  for_each_run(
      call.cells, call.cells.slots[row.token], 0, call.columns, [&](const CellRun& run) HWY_ATTR {
        const GroupRows<const float> query{q, 0, 1};
        score_cells<1, C>({call.keys, run, kv_head}, query, {row.scratch + run.index, 0, 1});
      });
  scale_columns(call, call.keys, row.token, kv_head, row.scratch);
  convert_row(row.scratch, call.columns, y);
}
RIDGE_TARGETS(RIDGE_CACHES, score_columns, CachedScores, const ScoresRow&)

template <typename T, typename C>
HWY_INLINE void mix_columns(const CachedMix<T, C>& call, const ScoresRow& row) {
  T* o = call.o.head(row.token, row.head);
  const int64_t size = call.values.head_size;
  if (call.cells.positions[row.token] < 0) return void(std::fill_n(o, size, T{0}));
  const int64_t kv_head = row.head / (call.heads / call.values.kv_heads);
  const T* p = call.p + (row.token * call.heads + row.head) * call.columns;
  convert_row(p, call.columns, row.scratch);
  scale_columns(call, call.values, row.token, kv_head, row.scratch);
  float* sums = row.scratch + call.columns + kFourCells;
  std::fill_n(sums, round_up(size, 8), 0.0f);
  for_each_run(call.cells, call.cells.slots[row.token], 0, call.columns,
               [&](const CellRun& run) HWY_ATTR {
                 const GroupRows<const float> weights{row.scratch + run.index, 0, 1};
                 mix_cells<1, C>({call.values, run, kv_head}, weights, {sums, 0, 1});
               });
  convert_row(sums, size, o);
}
RIDGE_TARGETS(RIDGE_CACHES, mix_columns, CachedMix, const ScoresRow&)

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridge::backends::cpu {

RIDGE_DISPATCH(RIDGE_CACHES, run_row, score_columns, CachedScores, const ScoresRow&)
RIDGE_DISPATCH(RIDGE_CACHES, run_row, mix_columns, CachedMix, const ScoresRow&)

namespace {

// Scratch of one thread, in whole cache lines: a row of scores, of whole groups of four, and q or
// the sums of one head, in whole octets.
int64_t scratch_floats(int64_t columns, int64_t head_size) {
  return round_up(columns + kFourCells + round_up(head_size, 8), 16);
}

// One step of attention over all tokens and heads, on the keys or the values of `cache`.
template <typename C, typename Step>
void run_rows(const Step& call, const Cache<const C>& cache) {
  const int64_t tasks = call.cells.tokens * call.heads;
  const int64_t scratch = scratch_floats(call.columns, cache.head_size);
  const int64_t parts = parts_for(bytes_of<C>(tasks * call.columns * cache.head_size));
  for_each_part(parts, [&](int64_t index) {
    for (int64_t task = index; task < tasks; task += parts)
      run_row(call, {task / call.heads, task % call.heads, call.workspace + index * scratch});
  });
}

}  // namespace

int64_t cached_scores_workspace_bytes(int64_t head_size, int64_t columns) {
  return 4 * omp_get_max_threads() * scratch_floats(columns, head_size);
}

template <typename T, typename C>
void cached_scores(const CachedScores<T, C>& call) {
  run_rows(call, call.keys);
}
RIDGE_INSTANCES(RIDGE_CACHES, void, cached_scores, CachedScores)

template <typename T, typename C>
void cached_mix(const CachedMix<T, C>& call) {
  run_rows(call, call.values);
}
RIDGE_INSTANCES(RIDGE_CACHES, void, cached_mix, CachedMix)

// Masks all cells but those of the last `seen` positions, around the ring.
template <typename T>
void cached_mask(const CachedMask<T>& call) {
  T none{};
  narrow_to(-std::numeric_limits<float>::infinity(), none);
  const int64_t reach = call.window > 0 && call.window < call.ring ? call.window : call.ring;
  const int64_t rows = call.tokens * call.heads;
  for_each_range(rows, parts_for(bytes_of<T>(2 * rows * call.columns)), [&](Range range) {
    for (int64_t r = range.begin; r < range.end; ++r) {
      const int64_t position = call.positions[r / call.heads];
      const int64_t seen = position + 1 < reach ? position + 1 : reach;
      const int64_t last = position < 0 ? 0 : position % call.ring;
      for (int64_t c = 0; c < call.columns; ++c) {
        const int64_t behind = last >= c ? last - c : last - c + call.ring;
        const int64_t at = r * call.columns + c;
        call.y[at] = behind < seen ? call.x[at] : none;
      }
    }
  });
}
RIDGE_INSTANCES(RIDGE_FLOATS, void, cached_mask, CachedMask)

}  // namespace ridge::backends::cpu
#endif  // HWY_ONCE
