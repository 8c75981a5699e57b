// SPDX-License-Identifier: Apache-2.0
// Writes whole heads into the cache, rounded to its type. Heads of keys and of values are split
// over threads, so that tokens that share a cell are written in order.
#include "backends/cpu/kernels/cache/kv_cache.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/cache/kv_cache.cc"
#include "backends/cpu/kernels/simd_targets.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "backends/cpu/kernels/cache/magnitude-inl.h"
#include "backends/cpu/kernels/partition.h"
#include "backends/cpu/kernels/typed_dispatch.h"
#include "backends/cpu/kernels/vector_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

HWY_INLINE hn::Vec<hn::Rebind<int32_t, F32>> round_to_integers(V32 x) {
#if HWY_TARGET == HWY_SCALAR
  // Highway's rounds 0.49999997 to 1.
  return hn::Set(hn::Rebind<int32_t, F32>(), static_cast<int32_t>(std::nearbyint(hn::GetLane(x))));
#else
  return hn::NearestInt(x);
#endif
}

HWY_INLINE void store_int8(Whole, V32 x, int8_t* to) {
  const hn::Rebind<int8_t, F32> d8;
  hn::StoreU(hn::DemoteTo(d8, round_to_integers(x)), d8, to);
}
HWY_INLINE void store_int8(Partial part, V32 x, int8_t* to) {
  int8_t buffer[HWY_MAX_BYTES / sizeof(float)];
  store_int8(Whole(), x, buffer);
  std::memcpy(to, buffer, static_cast<size_t>(part.count));
}

// Rounds a head to quants as ops/kv_cache.h defines it, and returns their scale.
HWY_INLINE float quantize_head(const float* x, int64_t size, int8_t* quants) {
  Magnitude magnitude;
  for_lanes(size, [&](auto part, int64_t i) HWY_ATTR { magnitude.add(load(part, x + i)); });
  const float scale = magnitude.largest() / 127.0f;
  if (!magnitude.is_finite() || scale < std::numeric_limits<float>::min()) {
    std::memset(quants, 0, static_cast<size_t>(size));
    return magnitude.is_finite() ? 0.0f : std::numeric_limits<float>::quiet_NaN();
  }
  const V32 inverse = hn::Set(F32(), 1.0f / scale);
  for_lanes(size, [&](auto part, int64_t i) HWY_ATTR {
    store_int8(part, hn::Mul(load(part, x + i), inverse), quants + i);
  });
  return scale;
}

template <typename T, typename C>
HWY_INLINE void append_head(const T* x, const Cache<C>& cache, int64_t row, int64_t head) {
  C* to = cache.head(row, head);
  if constexpr (sizeof(C) == 1)
    *cache.scale(row, head) = quantize_head(x, cache.head_size, to);
  else if constexpr (std::is_same_v<T, C>)
    std::memcpy(to, x, static_cast<size_t>(bytes_of<T>(cache.head_size)));
  else
    for_lanes(cache.head_size,
              [&](auto part, int64_t i) HWY_ATTR { store(part, load(part, x + i), to + i); });
}

// Each token's cell = its keys and values, for some parts: those of KV head h are 2 h and 2 h + 1.
template <typename T, typename C>
HWY_INLINE void append_heads(const KvAppend<T, C>& call, Range parts) {
  const CacheCells& cells = call.cells;
  for (int64_t n = 0; n < cells.tokens; ++n) {
    if (cells.positions[n] < 0) continue;
    const int64_t row = cells.row(cells.slots[n], cells.positions[n] % cells.ring());
    for (int64_t part = parts.begin; part < parts.end; ++part) {
      const int64_t h = part / 2;
      if (part % 2 == 0)
        append_head(call.k.head(n, h), call.keys, row, h);
      else
        append_head(call.v.head(n, h), call.values, row, h);
    }
  }
}
RIDGE_TARGETS(RIDGE_CACHES, append_heads, KvAppend, Range)

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridge::backends::cpu {

CacheFault check_cells(const CacheCells& cells) {
  for (int64_t n = 0; n < cells.tokens; ++n) {
    const int32_t position = cells.positions[n];
    if (position < -1 || position > cells.most_position) return {CacheFault::kPosition, n};
    if (position >= 0 && (cells.slots[n] < 0 || cells.slots[n] >= cells.slot_count))
      return {CacheFault::kSlot, n};
  }
  const int64_t entries = cells.slot_count * cells.blocks_per_slot;
  for (int64_t i = 0; i < entries; ++i)
    if (cells.block_table[i] < 0 || cells.block_table[i] >= cells.blocks)
      return {CacheFault::kBlock, i};
  return {};
}

RIDGE_DISPATCH(RIDGE_CACHES, run_heads, append_heads, KvAppend, Range)

template <typename T, typename C>
void kv_append(const KvAppend<T, C>& call) {
  const int64_t elements = 2 * call.cells.tokens * call.keys.kv_heads * call.keys.head_size;
  for_each_range(2 * call.keys.kv_heads, parts_for(bytes_of<T>(elements) + bytes_of<C>(elements)),
                 [&](Range parts) { run_heads(call, parts); });
}
RIDGE_INSTANCES(RIDGE_CACHES, void, kv_append, KvAppend)

}  // namespace ridge::backends::cpu
#endif  // HWY_ONCE
