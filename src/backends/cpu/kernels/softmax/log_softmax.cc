// SPDX-License-Identifier: Apache-2.0
// log_softmax and its gradient, row by row.
#include "backends/cpu/kernels/softmax/softmax.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/softmax/log_softmax.cc"
#include "backends/cpu/kernels/simd_targets.h"
// Highway re-includes this file for each target from here.
#include <hwy/foreach_target.h>
// The order of these matters to Highway.
#include <hwy/highway.h>

#include "backends/cpu/kernels/partition.h"
#include "backends/cpu/kernels/softmax/log_sum_exp-inl.h"
#include "backends/cpu/kernels/typed_dispatch.h"
#include "backends/cpu/kernels/vector_io-inl.h"
#include "backends/cpu/kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

// y = x - lse for a row of the call.
template <typename T>
HWY_INLINE void subtract_from_row(const LogSoftmax<T>& call,
                                  Range range,
                                  int64_t r,
                                  float lse,
                                  bool large) {
  const T* x = call.x[r];
  T* y = call.y[r];
  const bool streamed = large && x != y && is_aligned(y);
  const V32 offset = hn::Set(F32(), lse);
  const auto next = rows_after(r, range, call.rows, call.columns, call.x);
  for_lanes(call.columns, [&](auto part, int64_t i) HWY_ATTR {
    next.prefetch(i);
    store(part, hn::Sub(load(part, x + i), offset), y + i, streamed);
  });
}

// Rows of up to so many columns take their logarithms together: one of the C library costs as much
// as 100 columns. A group of fp32 rows fills an L1 of 32 KiB.
constexpr int64_t kGroupedColumns = 512;
constexpr int64_t kGroupedRows = 16;

// Mapping: rows in static ranges over threads; one pass from memory, one from cache.
// Bound: memory, 2 R C sizeof(T) while a row fits L2, 3 beyond.
template <typename T>
HWY_INLINE void log_rows(const LogSoftmax<T>& call, Range range) {
  const bool large = bytes_of<T>(call.rows * call.columns) >= kStreamBytes;
  if (call.columns > kGroupedColumns) {
    for (int64_t r = range.begin; r < range.end; ++r) {
      const double lse = exp_sum(call.x[r], call.columns, 1.0f).log_sum_exp(1.0f);
      subtract_from_row(call, range, r, static_cast<float>(lse), large);
    }
  } else {
    // A cache line that one row streams and the next stores takes several times as long.
    const bool streams = large && bytes_of<T>(call.y.stride) % HWY_MAX_BYTES == 0;
    HWY_ALIGN float highest[kGroupedRows] = {}, sums[kGroupedRows] = {};
    for (int64_t begin = range.begin; begin < range.end; begin += kGroupedRows) {
      const int64_t count = HWY_MIN(kGroupedRows, range.end - begin);
      for (int64_t i = 0; i < count; ++i) {
        const ExpSum sum = exp_sum(call.x[begin + i], call.columns, 1.0f);
        highest[i] = sum.highest;
        sums[i] = static_cast<float>(sum.sum);
      }
      for (int64_t i = 0; i < kGroupedRows; i += lanes()) {
        const V32 logarithms = log_of_positive(load(Whole(), sums + i));
        store(Whole(), hn::Add(load(Whole(), highest + i), logarithms), sums + i);
      }
      for (int64_t i = 0; i < count; ++i)
        subtract_from_row(call, range, begin + i, sums[i], streams);
    }
  }
  if (large) hwy::FlushStream();
}
RIDGE_TYPED_TARGETS(log_rows, LogSoftmax, Range)

// Mapping: as log_rows. Bound: memory, 3 R C sizeof(T) while a row fits L2, 4 beyond.
template <typename T>
HWY_INLINE void log_backward_rows(const LogSoftmaxBackward<T>& call, Range range) {
  const bool large = bytes_of<T>(call.rows * call.columns) >= kStreamBytes;
  for (int64_t r = range.begin; r < range.end; ++r) {
    const T* y = call.y[r];
    const T* dy = call.dy[r];
    T* dx = call.dx[r];
    const bool streamed = large && dx != y && dx != dy && is_aligned(dx);
    const float total = sum_lanes(call.columns, [&](auto part, int64_t i, V32& sum) HWY_ATTR {
      sum = hn::Add(sum, load(part, dy + i));
    });
    const V32 given = hn::Set(F32(), total);
    const auto next = rows_after(r, range, call.rows, call.columns, call.dy);
    for_lanes(call.columns, [&](auto part, int64_t i) HWY_ATTR {
      next.prefetch(i);
      V32 p = exp2_of_negative(hn::Mul(load(part, y + i), hn::Set(F32(), kLog2E)));
      store(part, hn::NegMulAdd(p, given, load(part, dy + i)), dx + i, streamed);
    });
  }
  if (large) hwy::FlushStream();
}
RIDGE_TYPED_TARGETS(log_backward_rows, LogSoftmaxBackward, Range)

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridge::backends::cpu {

RIDGE_TYPED_ROWS(log_softmax, log_rows, LogSoftmax, rows, 2 * call.columns)
RIDGE_TYPED_ROWS(log_softmax_backward,
                 log_backward_rows,
                 LogSoftmaxBackward,
                 rows,
                 3 * call.columns)

}  // namespace ridge::backends::cpu
#endif  // HWY_ONCE
