// SPDX-License-Identifier: Apache-2.0
// Reductions over rows, columns and whole tensors.
#include "backends/cpu/kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/reduce.cc"
#include "backends/cpu/kernels/simd_targets.h"

#include "backends/cpu/kernels/partition.h"
#include "backends/cpu/kernels/typed_dispatch.h"
#include "backends/cpu/kernels/vector_io-inl.h"
#include "base/shape.h"

#ifndef RIDGE_CPU_REDUCE_COLUMNS_BLOCK_
#define RIDGE_CPU_REDUCE_COLUMNS_BLOCK_
namespace ridge::backends::cpu {

struct ColumnsBlock {
  Range rows;
  Range columns;
  float* total;  // per column
};

// A contiguous tensor and the sums of squares of its blocks.
template <typename In>
struct Squares {
  static constexpr int64_t kBlock = 16 << 10;
  const In* x;
  int64_t elements;
  double* sums;
};

}  // namespace ridge::backends::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

template <typename In>
HWY_INLINE float row_sum(const In* x, int64_t n) {
  return sum_lanes(n, [&](auto part, int64_t i, V32& total)
                          HWY_ATTR { total = hn::Add(total, load(part, x + i)); });
}

// Mapping: rows in static ranges over threads. Bound: memory, R C sizeof(In) read.
template <typename In, typename Out>
HWY_INLINE void rows_to_values(const ReduceRows<In, Out>& call, Range range) {
  for (int64_t r = range.begin; r < range.end; ++r) {
    const In* x = call.x[r];
    const float value =
        call.reduction == Reduction::kSum ? row_sum(x, call.columns) : row_max(x, call.columns);
    store(Partial{1}, hn::Set(F32(), value), call.y + r);
  }
}
RIDGE_TARGETS(RIDGE_PAIRS, rows_to_values, ReduceRows, Range)

// The sum of a block's rows, four rows at a time: the running total is loaded and stored once per
// four rows, and its rounding error grows a quarter as fast.
template <typename In, typename Out>
HWY_INLINE void add_rows(const SumColumns<In, Out>& call, const ColumnsBlock& block) {
  const StridedRows<const In> x = call.x;
  const Range range = block.rows, columns = block.columns;
  float* total = block.total;
  const int64_t width = columns.end - columns.begin;
  for_lanes(width, [&](auto part, int64_t i) HWY_ATTR { store(part, hn::Zero(F32()), total + i); });
  int64_t r = range.begin;
  for (; r + 4 <= range.end; r += 4) {
    const In* x0 = x[r] + columns.begin;
    const In* x1 = x[r + 1] + columns.begin;
    const In* x2 = x[r + 2] + columns.begin;
    const In* x3 = x[r + 3] + columns.begin;
    const int64_t ahead = r + 8 <= range.end ? 4 * x.stride : 0;
    for_lanes(width, [&](auto part, int64_t i) HWY_ATTR {
      prefetch_to_l2(x0 + ahead + i);
      prefetch_to_l2(x1 + ahead + i);
      prefetch_to_l2(x2 + ahead + i);
      prefetch_to_l2(x3 + ahead + i);
      V32 low = hn::Add(load(part, x0 + i), load(part, x1 + i));
      V32 high = hn::Add(load(part, x2 + i), load(part, x3 + i));
      store(part, hn::Add(load(part, total + i), hn::Add(low, high)), total + i);
    });
  }
  for (; r < range.end; ++r) {
    const In* row = x[r] + columns.begin;
    for_lanes(width, [&](auto part, int64_t i) HWY_ATTR {
      store(part, hn::Add(load(part, total + i), load(part, row + i)), total + i);
    });
  }
}
RIDGE_TARGETS(RIDGE_PAIRS, add_rows, SumColumns, const ColumnsBlock&)

// Adds up the partial sums in the workspace.
template <typename In, typename Out>
HWY_INLINE void add_partials(const SumColumns<In, Out>& call, int64_t count) {
  const float* partials = call.workspace;
  for_lanes(call.columns, [&](auto part, int64_t i) HWY_ATTR {
    V32 total = load(part, partials + i);
    for (int64_t p = 1; p < count; ++p) {
      total = hn::Add(total, load(part, partials + p * call.columns + i));
    }
    store(part, total, call.y + i);
  });
}
RIDGE_TARGETS(RIDGE_PAIRS, add_partials, SumColumns, int64_t)

// Sums runs of 1024 elements in fp32, where four vectors lose less than 1e-7, and adds the runs in
// double.
template <typename In>
HWY_INLINE void square_blocks(const Squares<In>& call, Range blocks) {
  constexpr int64_t kRun = 1024;
  for (int64_t b = blocks.begin; b < blocks.end; ++b) {
    const In* x = call.x + b * Squares<In>::kBlock;
    const int64_t n = HWY_MIN(Squares<In>::kBlock, call.elements - b * Squares<In>::kBlock);
    double sum = 0.0;
    for (int64_t i = 0; i < n; i += kRun) sum += row_sum_squares(x + i, HWY_MIN(kRun, n - i));
    call.sums[b] = sum;
  }
}
RIDGE_TARGETS(RIDGE_FLOATS, square_blocks, Squares, Range)

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridge::backends::cpu {
namespace {

// For the smallest In, two bytes per element: parts, and with them the workspace, must not depend
// on In.
int64_t column_parts(int64_t rows, int64_t columns) { return parts_for(2 * rows * columns); }

int64_t square_blocks_of(int64_t elements) { return ceil_div(elements, Squares<float>::kBlock); }

}  // namespace

RIDGE_DISPATCH(RIDGE_PAIRS, run_range, rows_to_values, ReduceRows, Range)
template <typename In, typename Out>
void reduce_rows(const ReduceRows<In, Out>& call) {
  for_each_range(call.rows, parts_for(bytes_of<In>(call.rows * call.columns)),
                 [&](Range range) { run_range(call, range); });
}
RIDGE_INSTANCES(RIDGE_PAIRS, void, reduce_rows, ReduceRows)

int64_t sum_columns_workspace_bytes(int64_t rows, int64_t columns) {
  return bytes_of<float>(column_parts(rows, columns) * columns);
}

RIDGE_DISPATCH(RIDGE_PAIRS, run_add_rows, add_rows, SumColumns, const ColumnsBlock&)
RIDGE_DISPATCH(RIDGE_PAIRS, run_add_partials, add_partials, SumColumns, int64_t)
// Mapping: rows in static ranges over threads, one partial sum each; wide rows in blocks of columns
// whose totals stay in L1. Then the partials are added in order. Bound: memory, R C sizeof(In)
// read.
template <typename In, typename Out>
void sum_columns(const SumColumns<In, Out>& call) {
  constexpr int64_t kBlock = 4096;  // columns: 16 KiB of totals
  const int64_t parts = column_parts(call.rows, call.columns);
  // Vectors lie along a row.
  if (parts == 1 && call.columns == 1 && call.x.stride == 1)
    return reduce_rows(
        ReduceRows<In, Out>{1, call.rows, Reduction::kSum, {call.x.data, call.rows}, call.y});
  for_each_part(parts, [&](int64_t index) {
    const Range rows = part_of(call.rows, parts, index);
    for (int64_t begin = 0; begin < call.columns; begin += kBlock) {
      const Range columns{begin, std::min(begin + kBlock, call.columns)};
      run_add_rows(call, {rows, columns, call.workspace + index * call.columns + begin});
    }
  });
  run_add_partials(call, parts);
}
RIDGE_INSTANCES(RIDGE_PAIRS, void, sum_columns, SumColumns)

int64_t sum_squares_workspace_bytes(int64_t elements) {
  return bytes_of<double>(square_blocks_of(elements));
}

RIDGE_DISPATCH(RIDGE_FLOATS, run_blocks, square_blocks, Squares, Range)
// Mapping: blocks of 16 Ki elements in static ranges over threads. Bound: memory, sizeof(In) read
// per element.
template <typename In>
double sum_squares(const In* x, int64_t elements, double* workspace) {
  const int64_t blocks = square_blocks_of(elements);
  const Squares<In> call{x, elements, workspace};
  for_each_range(blocks, parts_for(bytes_of<In>(elements)),
                 [&](Range range) { run_blocks(call, range); });
  double sum = 0.0;
  for (int64_t b = 0; b < blocks; ++b) sum += workspace[b];
  return sum;
}

template double sum_squares(const float*, int64_t, double*);
template double sum_squares(const uint16_t*, int64_t, double*);
template double sum_squares(const Float16*, int64_t, double*);

}  // namespace ridge::backends::cpu
#endif  // HWY_ONCE
