// SPDX-License-Identifier: Apache-2.0
// Fills strided rows with a constant.
#include "backends/cpu/kernels/copy/fill.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/copy/fill.cc"
#include "backends/cpu/kernels/simd_targets.h"
// Highway re-includes this file for each target from here.
#include <hwy/foreach_target.h>
// The order of these matters to Highway.
#include <hwy/highway.h>

#include <algorithm>

#include "backends/cpu/kernels/partition.h"
#include "backends/cpu/kernels/typed_dispatch.h"
#include "backends/cpu/kernels/vector_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

// Mapping: rows, or one contiguous range, in static ranges over threads. Bound: memory, the bytes
// written.
template <typename T>
HWY_INLINE void fill_run(T* y, int64_t count, float value, bool large) {
  const bool streamed = large && is_aligned(y);
  const V32 v = hn::Set(F32(), value);
  for_lanes(count, [&](auto part, int64_t i) HWY_ATTR { store(part, v, y + i, streamed); });
  if (streamed) hwy::FlushStream();
}

void fill_f32(float* y, int64_t count, float value, bool large) {
  fill_run(y, count, value, large);
}
void fill_bf16(uint16_t* y, int64_t count, float value, bool large) {
  fill_run(y, count, value, large);
}
void fill_f16(Float16* y, int64_t count, float value, bool large) {
  fill_run(y, count, value, large);
}

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridge::backends::cpu {
namespace {

HWY_EXPORT(fill_f32);
HWY_EXPORT(fill_bf16);
HWY_EXPORT(fill_f16);

void run(float* y, int64_t count, float value, bool large) {
  HWY_DYNAMIC_DISPATCH(fill_f32)(y, count, value, large);
}
void run(uint16_t* y, int64_t count, float value, bool large) {
  HWY_DYNAMIC_DISPATCH(fill_bf16)(y, count, value, large);
}
void run(Float16* y, int64_t count, float value, bool large) {
  HWY_DYNAMIC_DISPATCH(fill_f16)(y, count, value, large);
}

constexpr int64_t kLine = 32;  // parts of one range are cut at whole cache lines for all types

}  // namespace

template <typename T>
void fill(const Fill<T>& call) {
  const int64_t count = call.rows * call.columns;
  const int64_t bytes = bytes_of<T>(count);
  const int64_t parts = parts_for(bytes);
  const bool large = bytes >= kStreamBytes;
  const auto value = static_cast<float>(call.value);
  if (call.rows == 1 || call.y.stride == call.columns) {
    for_each_part(parts, [&](int64_t index) {
      const Range range = part_of(count, parts, index, kLine);
      run(call.y.data + range.begin, range.end - range.begin, value, large);
    });
    return;
  }
  for_each_range(call.rows, parts, [&](Range range) {
    for (int64_t r = range.begin; r < range.end; ++r) run(call.y[r], call.columns, value, large);
  });
}
RIDGE_TYPED_INSTANCES(void, fill, Fill)

template <>
void fill(const Fill<int32_t>& call) {
  for (int64_t r = 0; r < call.rows; ++r)
    std::fill_n(call.y[r], call.columns, static_cast<int32_t>(call.value));
}

}  // namespace ridge::backends::cpu
#endif  // HWY_ONCE
