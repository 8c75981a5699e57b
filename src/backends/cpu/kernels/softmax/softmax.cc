// SPDX-License-Identifier: Apache-2.0
// Softmax and its gradient, row by row; the mask limits each row to one range of columns.
#include "backends/cpu/kernels/softmax/softmax.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/softmax/softmax.cc"
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
#include "base/error.h"

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

HWY_INLINE Range seen_columns(const SoftmaxMask& mask, int64_t row, int64_t columns) {
  if (mask.queries == 0) return {0, columns};
  const int64_t after = mask.offset + row % mask.queries + 1;
  const int64_t end = HWY_MAX(int64_t{0}, HWY_MIN(after, columns));
  const int64_t begin = mask.window == 0 ? 0 : HWY_MAX(int64_t{0}, after - mask.window);
  return {HWY_MIN(begin, end), end};
}

// Zeroes masked columns; if streamed, stores bypass the caches from the first whole cache line on.
template <typename T>
HWY_INLINE void zero_columns(T* y, Range columns, bool streamed) {
  T* from = y + columns.begin;
  int64_t count = columns.end - columns.begin;
  const V32 zero = hn::Zero(F32());
  if (streamed && !is_aligned(from)) {
    const int64_t past = static_cast<int64_t>(reinterpret_cast<uintptr_t>(from) % HWY_MAX_BYTES);
    const int64_t left = HWY_MIN((HWY_MAX_BYTES - past) / static_cast<int64_t>(sizeof(T)), count);
    for_lanes(left, [&](auto part, int64_t i) HWY_ATTR { store(part, zero, from + i); });
    from += left;
    count -= left;
  }
  for_lanes(count, [&](auto part, int64_t i) HWY_ATTR { store(part, zero, from + i, streamed); });
}

// Rows of up to this many columns keep their exponentials in a buffer of 16 KiB between the sum and
// the division by it: one exp per element instead of two (0.30 against 0.46 ns). Longer rows
// compute them twice, from L2 or L3.
constexpr int64_t kBufferedColumns = 4096;

// y = exp(scale x) / sum for a row of at most kBufferedColumns columns.
template <typename T>
HWY_INLINE void short_row(const T* x,
                          int64_t width,
                          float scale,
                          const NextRows<T, 1>& next,
                          T* y,
                          bool aligned) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  const F32 d;
  HWY_ALIGN float buffer[kBufferedColumns];
  const V32 factor = hn::Set(d, scale * kLog2E);
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
HWY_INLINE void long_row(const T* x, int64_t width, float scale, T* y, bool aligned) {
  const F32 d;
  const V32 factor = hn::Set(d, scale * kLog2E);
  const ExpSum total = exp_sum(x, width, scale);
  const V32 offset = hn::Set(d, total.highest);
  const V32 share = hn::Set(d, total.sum == 0.0 ? 0.0f : static_cast<float>(1.0 / total.sum));
  for_lanes(width, [&](auto part, int64_t i) HWY_ATTR {
    V32 less = hn::Sub(load(part, x + i), offset);
    V32 e = exp2_of_negative(hn::Mul(less, factor));
    store(part, hn::Mul(e, share), y + i, aligned);
  });
}

// Mapping: rows in static ranges over threads, one pass from memory and the others from cache.
// Bound: memory, 2 R C sizeof(T) without a mask while a row fits L2; causal rows read half of that.
template <typename T>
HWY_INLINE void softmax_rows(const Softmax<T>& call, Range range) {
  const bool large = bytes_of<T>(call.rows * call.columns) >= kStreamBytes;
  for (int64_t r = range.begin; r < range.end; ++r) {
    const Range seen = seen_columns(call.mask, r, call.columns);
    const int64_t width = seen.end - seen.begin;
    const T* x = call.x[r] + seen.begin;
    T* y = call.y[r] + seen.begin;
    const bool streamed = large && x != y;
    const bool aligned = streamed && is_aligned(y);
    zero_columns(call.y[r], {0, seen.begin}, streamed);
    if (width <= kBufferedColumns) {
      const auto next = rows_after(r, range, call.rows, call.columns,
                                   StridedRows<const T>{call.x.data + seen.begin, call.x.stride});
      short_row(x, width, call.scale, next, y, aligned);
    } else {
      long_row(x, width, call.scale, y, aligned);
    }
    zero_columns(call.y[r], {seen.end, call.columns}, streamed);
  }
  if (large) hwy::FlushStream();
}
RIDGE_TYPED_TARGETS(softmax_rows, Softmax, Range)

// Mapping: rows in static ranges over threads; one pass from memory for the dot product, one from
// cache. Bound: memory, 3 R C sizeof(T) without a mask.
template <typename T>
HWY_INLINE void softmax_backward_rows(const SoftmaxBackward<T>& call, Range range) {
  const F32 d;
  const V32 scale = hn::Set(d, call.scale);
  const bool large = bytes_of<T>(call.rows * call.columns) >= kStreamBytes;
  for (int64_t r = range.begin; r < range.end; ++r) {
    const Range seen = seen_columns(call.mask, r, call.columns);
    const T* y = call.y[r] + seen.begin;
    const T* dy = call.dy[r] + seen.begin;
    T* dx = call.dx[r] + seen.begin;
    const int64_t width = seen.end - seen.begin;
    const float dot = sum_lanes(width, [&](auto part, int64_t i, V32& total) HWY_ATTR {
      total = hn::MulAdd(load(part, y + i), load(part, dy + i), total);
    });
    const V32 mean = hn::Set(d, dot);
    const auto next = rows_after(r, range, call.rows, call.columns, call.y, call.dy);
    const bool streamed = large && dx != y && dx != dy;
    const bool aligned = streamed && is_aligned(dx);
    zero_columns(call.dx[r], {0, seen.begin}, streamed);
    for_lanes(width, [&](auto part, int64_t i) HWY_ATTR {
      next.prefetch(seen.begin + i);
      V32 scaled = hn::Mul(load(part, y + i), scale);
      store(part, hn::Mul(scaled, hn::Sub(load(part, dy + i), mean)), dx + i, aligned);
    });
    zero_columns(call.dx[r], {seen.end, call.columns}, streamed);
  }
  if (large) hwy::FlushStream();
}
RIDGE_TYPED_TARGETS(softmax_backward_rows, SoftmaxBackward, Range)

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridge::backends::cpu {

RIDGE_TYPED_DISPATCH(run_range, softmax_rows, Softmax, Range)
RIDGE_TYPED_DISPATCH(run_range, softmax_backward_rows, SoftmaxBackward, Range)

namespace {

// Causal rows grow with their position, so they are dealt to the threads in rounds: with one
// contiguous range each, the last thread would have most of the work.
template <typename Call>
void run_rows(const Call& call, int64_t bytes) {
  constexpr int64_t kRound = 16;
  const int64_t parts = parts_for(bytes);
  if (call.mask.queries == 0) {
    for_each_range(call.rows, parts, [&](Range range) { run_range(call, range); });
    return;
  }
  for_each_part(parts, [&](int64_t index) {
    for (int64_t begin = index * kRound; begin < call.rows; begin += parts * kRound) {
      run_range(call, Range{begin, std::min(begin + kRound, call.rows)});
    }
  });
}

}  // namespace

template <typename T>
void softmax(const Softmax<T>& call) {
  RIDGE_CHECK(call.scale > 0.0f, "[softmax] expected a positive scale, got {}", call.scale);
  run_rows(call, bytes_of<T>(2 * call.rows * call.columns));
}
RIDGE_TYPED_INSTANCES(void, softmax, Softmax)

template <typename T>
void softmax_backward(const SoftmaxBackward<T>& call) {
  run_rows(call, bytes_of<T>(3 * call.rows * call.columns));
}
RIDGE_TYPED_INSTANCES(void, softmax_backward, SoftmaxBackward)

}  // namespace ridge::backends::cpu
#endif  // HWY_ONCE
