// SPDX-License-Identifier: Apache-2.0
// Fills strided rows with a constant.
#include "backends/cpu/kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/copy/fill.cc"
#include "backends/cpu/kernels/simd_targets.h"

#include <algorithm>

#include "backends/cpu/kernels/partition.h"
#include "backends/cpu/kernels/typed_dispatch.h"
#include "backends/cpu/kernels/vector_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

// Mapping: rows, or one contiguous range, in static ranges over threads. Bound: memory, the bytes
// written.
template <typename T>
HWY_INLINE void fill_rows(const Fill<T>& call, bool large) {
  const V32 v = hn::Set(F32(), static_cast<float>(call.value));
  for (int64_t r = 0; r < call.rows; ++r) {
    T* y = call.y[r];
    const bool streamed = large && is_aligned(y);
    for_lanes(call.columns,
              [&](auto part, int64_t i) HWY_ATTR { store(part, v, y + i, streamed); });
    if (streamed) hwy::FlushStream();
  }
}
RIDGE_TARGETS(RIDGE_FLOATS, fill_rows, Fill, bool)

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridge::backends::cpu {

RIDGE_DISPATCH(RIDGE_FLOATS, run_rows, fill_rows, Fill, bool)
template <typename T>
void fill(const Fill<T>& call) {
  constexpr int64_t kLine = 32;  // parts of one range are cut at whole cache lines for all types
  const int64_t count = call.rows * call.columns;
  const int64_t bytes = bytes_of<T>(count);
  const int64_t parts = parts_for(bytes);
  const bool large = bytes >= kStreamBytes;
  if (call.rows == 1 || call.y.stride == call.columns) {
    for_each_part(parts, [&](int64_t index) {
      const Range range = part_of(count, parts, index, kLine);
      const int64_t columns = range.end - range.begin;
      run_rows(Fill<T>{1, columns, {call.y.data + range.begin, columns}, call.value}, large);
    });
    return;
  }
  for_each_range(call.rows, parts, [&](Range range) {
    const StridedRows<T> y{call.y[range.begin], call.y.stride};
    run_rows(Fill<T>{range.end - range.begin, call.columns, y, call.value}, large);
  });
}
RIDGE_INSTANCES(RIDGE_FLOATS, void, fill, Fill)

template <>
void fill(const Fill<int32_t>& call) {
  for (int64_t r = 0; r < call.rows; ++r)
    std::fill_n(call.y[r], call.columns, static_cast<int32_t>(call.value));
}

}  // namespace ridge::backends::cpu
#endif  // HWY_ONCE
