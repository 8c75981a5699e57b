// SPDX-License-Identifier: Apache-2.0
// The softmax of the scores of a cache's cells, with their scale and their mask: what lies between
// cached_scores and cached_mix.
#include "backends/cpu/kernels/cache/cached_attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/cache/cached_softmax.cc"
#include "backends/cpu/kernels/simd_targets.h"

#include "backends/cpu/kernels/partition.h"
#include "backends/cpu/kernels/typed_dispatch.h"
#include "backends/cpu/kernels/vector_io-inl.h"
#include "backends/cpu/kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

// The columns that a token attends to, [begin, end) and [wrapped, columns): the last positions lie
// around the ring's end.
struct SeenColumns {
  int64_t begin = 0, end = 0, wrapped = 0;
};

template <typename T>
HWY_INLINE SeenColumns seen_columns(const CachedMask<T>& call, int64_t position) {
  if (position < 0) return {0, 0, call.columns};
  const int64_t reach = call.window > 0 && call.window < call.ring ? call.window : call.ring;
  const int64_t seen = position + 1 < reach ? position + 1 : reach;
  const int64_t last = position % call.ring;
  const int64_t first = last + 1 - seen;
  return {HWY_MIN(HWY_MAX(first, 0), call.columns), HWY_MIN(last + 1, call.columns),
          first < 0 ? HWY_MIN(first + call.ring, call.columns) : call.columns};
}

// Mapping: rows in static ranges over threads; two passes over a row in cache, then one. Bound:
// memory, 2 R C sizeof(T) while a row fits L2.
template <typename T>
HWY_INLINE void softmax_of_cells(const CachedSoftmax<T>& call, Range range) {
  constexpr int64_t kSummed = 2048;  // exponentials that are summed in fp32
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  const F32 d;
  const CachedMask<T>& mask = call.mask;
  const V32 factor = hn::Set(d, call.scale * kLog2E), none = hn::Set(d, kNone);
  for (int64_t r = range.begin; r < range.end; ++r) {
    const T* x = mask.x + r * mask.columns;
    T* y = mask.y + r * mask.columns;
    const SeenColumns seen = seen_columns(mask, mask.positions[r / mask.heads]);
    const int64_t begins[2] = {seen.begin, seen.wrapped},
                  counts[2] = {seen.end - seen.begin, mask.columns - seen.wrapped};
    float highest = kNone;
    for (int part = 0; part < 2; ++part)
      if (counts[part] > 0) highest = HWY_MAX(highest, row_max(x + begins[part], counts[part]));
    const V32 offset = hn::Set(d, highest == kNone ? 0.0f : highest);
    double total = 0;
    for (int part = 0; part < 2; ++part)
      for (int64_t begin = 0; begin < counts[part]; begin += kSummed) {
        const T* from = x + begins[part] + begin;
        const int64_t count = HWY_MIN(kSummed, counts[part] - begin);
        total += sum_lanes(count, [&](auto lanes, int64_t i, V32& sum) HWY_ATTR {
          V32 less = hn::Sub(load_or(lanes, from + i, none), offset);
          sum = hn::Add(sum, exp2_of_negative(hn::Mul(less, factor)));
        });
      }
    const V32 share = hn::Set(d, total == 0.0 ? 0.0f : static_cast<float>(1.0 / total));
    for (int part = 0; part < 2; ++part) {
      const T* from = x + begins[part];
      T* to = y + begins[part];
      if (counts[part] <= 0) continue;
      for_lanes(counts[part], [&](auto lanes, int64_t i) HWY_ATTR {
        V32 less = hn::Sub(load(lanes, from + i), offset);
        store(lanes, hn::Mul(exp2_of_negative(hn::Mul(less, factor)), share), to + i);
      });
    }
    std::fill(y, y + seen.begin, T{});
    std::fill(y + HWY_MAX(seen.begin, seen.end), y + seen.wrapped, T{});
  }
}
RIDGE_TARGETS(RIDGE_FLOATS, softmax_of_cells, CachedSoftmax, Range)

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridge::backends::cpu {

RIDGE_DISPATCH(RIDGE_FLOATS, run_range, softmax_of_cells, CachedSoftmax, Range)

template <typename T>
void cached_softmax(const CachedSoftmax<T>& call) {
  const int64_t rows = call.mask.tokens * call.mask.heads;
  for_each_range(rows, parts_for(bytes_of<T>(2 * rows * call.mask.columns)),
                 [&](Range range) { run_range(call, range); });
}
RIDGE_INSTANCES(RIDGE_FLOATS, void, cached_softmax, CachedSoftmax)

}  // namespace ridge::backends::cpu
#endif  // HWY_ONCE
