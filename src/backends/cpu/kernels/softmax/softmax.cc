// SPDX-License-Identifier: Apache-2.0
// Softmax, log_softmax and their gradients, row by row.
#include "backends/cpu/kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/softmax/softmax.cc"
#include "backends/cpu/kernels/simd_targets.h"

#include "backends/cpu/kernels/partition.h"
#include "backends/cpu/kernels/softmax/log_sum_exp-inl.h"
#include "backends/cpu/kernels/typed_dispatch.h"
#include "backends/cpu/kernels/vector_io-inl.h"
#include "backends/cpu/kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

// Rows of up to this many columns keep their exponentials in a buffer of 16 KiB between the sum and
// the division by it: one exp per element instead of two (0.30 against 0.46 ns). Longer rows
// compute them twice, from L2 or L3.
constexpr int64_t kBufferedColumns = 4096;

// y = exp(x) / sum for a row of at most kBufferedColumns columns.
template <typename T>
HWY_INLINE void short_row(const T* x,
                          int64_t width,
                          const NextRows<T, 1>& next,
                          T* y,
                          bool aligned) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  const F32 d;
  HWY_ALIGN float buffer[kBufferedColumns];
  const V32 factor = hn::Set(d, kLog2E);
  const V32 none = hn::Set(d, kNone);
  const float highest = row_max(x, width);
  const V32 offset = hn::Set(d, highest == kNone ? 0.0f : highest);
  const float sum = sum_lanes(width, [&](auto part, int64_t i, V32& total) HWY_ATTR {
    next.prefetch(i);
    V32 less = hn::Sub(load_or(part, x + i, none), offset);
    V32 e = exp2_of_negative(hn::Mul(less, factor));
    store(part, e, buffer + i);
    total = hn::Add(total, e);
  });
  const V32 share = hn::Set(d, sum == 0.0f ? 0.0f : 1.0f / sum);
  for_lanes(width, [&](auto part, int64_t i) HWY_ATTR {
    store(part, hn::Mul(load(part, buffer + i), share), y + i, aligned);
  });
}

template <typename T>
HWY_INLINE void long_row(const T* x, int64_t width, T* y, bool aligned) {
  const F32 d;
  const V32 factor = hn::Set(d, kLog2E);
  const ExpSum total = exp_sum(x, width);
  const V32 offset = hn::Set(d, total.highest);
  const V32 share = hn::Set(d, total.sum == 0.0 ? 0.0f : static_cast<float>(1.0 / total.sum));
  for_lanes(width, [&](auto part, int64_t i) HWY_ATTR {
    V32 less = hn::Sub(load(part, x + i), offset);
    V32 e = exp2_of_negative(hn::Mul(less, factor));
    store(part, hn::Mul(e, share), y + i, aligned);
  });
}

// Mapping: rows in static ranges over threads, one pass from memory and the others from cache.
// Bound: memory, 2 R C sizeof(T) while a row fits L2.
template <typename T>
HWY_INLINE void softmax_rows(const Softmax<T>& call, Range range) {
  const bool large = bytes_of<T>(call.rows * call.columns) >= kStreamBytes;
  for (int64_t r = range.begin; r < range.end; ++r) {
    const T* x = call.x[r];
    T* y = call.y[r];
    const bool aligned = large && x != y && is_aligned(y);
    if (call.columns <= kBufferedColumns) {
      const auto next = rows_after(r, range, call.rows, call.columns, call.x);
      short_row(x, call.columns, next, y, aligned);
    } else {
      long_row(x, call.columns, y, aligned);
    }
  }
  if (large) hwy::FlushStream();
}
RIDGE_TARGETS(RIDGE_FLOATS, softmax_rows, Softmax, Range)

// Mapping: rows in static ranges over threads; one pass from memory for the dot product, one from
// cache. Bound: memory, 3 R C sizeof(T).
template <typename T>
HWY_INLINE void softmax_backward_rows(const SoftmaxBackward<T>& call, Range range) {
  const bool large = bytes_of<T>(call.rows * call.columns) >= kStreamBytes;
  for (int64_t r = range.begin; r < range.end; ++r) {
    const T* y = call.y[r];
    const T* dy = call.dy[r];
    T* dx = call.dx[r];
    const float dot = sum_lanes(call.columns, [&](auto part, int64_t i, V32& total) HWY_ATTR {
      total = hn::MulAdd(load(part, y + i), load(part, dy + i), total);
    });
    const V32 mean = hn::Set(F32(), dot);
    const auto next = rows_after(r, range, call.rows, call.columns, call.y, call.dy);
    const bool aligned = large && dx != y && dx != dy && is_aligned(dx);
    for_lanes(call.columns, [&](auto part, int64_t i) HWY_ATTR {
      next.prefetch(i);
      store(part, hn::Mul(load(part, y + i), hn::Sub(load(part, dy + i), mean)), dx + i, aligned);
    });
  }
  if (large) hwy::FlushStream();
}
RIDGE_TARGETS(RIDGE_FLOATS, softmax_backward_rows, SoftmaxBackward, Range)

// y = x - lse for a row of the call.
template <typename T>
HWY_INLINE void subtract_from_row(const Softmax<T>& call,
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
HWY_INLINE void log_rows(const Softmax<T>& call, Range range) {
  const bool large = bytes_of<T>(call.rows * call.columns) >= kStreamBytes;
  if (call.columns > kGroupedColumns) {
    for (int64_t r = range.begin; r < range.end; ++r) {
      const double lse = exp_sum(call.x[r], call.columns).log_sum_exp();
      subtract_from_row(call, range, r, static_cast<float>(lse), large);
    }
  } else {
    // A cache line that one row streams and the next stores takes several times as long.
    const bool streams = large && bytes_of<T>(call.y.stride) % HWY_MAX_BYTES == 0;
    HWY_ALIGN float highest[kGroupedRows] = {}, sums[kGroupedRows] = {};
    for (int64_t begin = range.begin; begin < range.end; begin += kGroupedRows) {
      const int64_t count = HWY_MIN(kGroupedRows, range.end - begin);
      for (int64_t i = 0; i < count; ++i) {
        const ExpSum sum = exp_sum(call.x[begin + i], call.columns);
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
RIDGE_TARGETS(RIDGE_FLOATS, log_rows, Softmax, Range)

// Mapping: as log_rows. Bound: memory, 3 R C sizeof(T) while a row fits L2, 4 beyond.
template <typename T>
HWY_INLINE void log_backward_rows(const SoftmaxBackward<T>& call, Range range) {
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
RIDGE_TARGETS(RIDGE_FLOATS, log_backward_rows, SoftmaxBackward, Range)

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridge::backends::cpu {

RIDGE_ROWS_KERNEL(softmax, softmax_rows, Softmax, rows, 2 * call.columns)
RIDGE_ROWS_KERNEL(softmax_backward, softmax_backward_rows, SoftmaxBackward, rows, 3 * call.columns)
RIDGE_ROWS_KERNEL(log_softmax, log_rows, Softmax, rows, 2 * call.columns)
RIDGE_ROWS_KERNEL(log_softmax_backward, log_backward_rows, SoftmaxBackward, rows, 3 * call.columns)

}  // namespace ridge::backends::cpu
#endif  // HWY_ONCE
