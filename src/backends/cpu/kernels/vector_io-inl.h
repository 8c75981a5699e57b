// SPDX-License-Identifier: Apache-2.0
// Per-target: loads and stores of float, bf16 (uint16_t) or fp16 (Float16) elements as vectors of
// floats, whole or partial, and the loops over rows. vector_math-inl.h has the arithmetic.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstdint>
#include <limits>
#include <cstring>
#include <type_traits>

#include "backends/cpu/kernels/partition.h"
#include "backends/kernels/strided_rows.h"
#include "base/bf16.h"
#include "base/float16.h"

#if defined(RIDGE_CPU_VECTOR_IO_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RIDGE_CPU_VECTOR_IO_INL_H_
#undef RIDGE_CPU_VECTOR_IO_INL_H_
#else
#define RIDGE_CPU_VECTOR_IO_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using U32 = hn::ScalableTag<uint32_t>;
using V32 = hn::Vec<F32>;
using U16Half = hn::Rebind<uint16_t, F32>;  // as many 16-bit lanes as F32 has lanes

// One step of a row's loop uses so much of a vector: all lanes, or the first `count`.
struct Whole {};
struct Partial {
  int64_t count;
};

HWY_INLINE int64_t lanes() { return static_cast<int64_t>(hn::Lanes(F32())); }

// bf16 is the upper half of a float, so widening is a shift.
HWY_INLINE V32 widen_bf16(hn::Vec<U16Half> bits) {
  return hn::BitCast(F32(), hn::ShiftLeft<16>(hn::PromoteTo(U32(), bits)));
}

// Each lane's bf16 in the upper half of its 32 bits: rounded to nearest even, NaN stays NaN (as in
// base/bf16.h).
HWY_INLINE hn::Vec<U32> round_to_bf16_bits(V32 v) {
  const U32 du;
  auto bits = hn::BitCast(du, v);
  auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
  auto rounded = hn::Add(hn::Add(bits, hn::Set(du, 0x7fffu)), odd);
  auto quiet = hn::Or(bits, hn::Set(du, 0x400000u));
  return hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(v)), quiet, rounded);
}

HWY_INLINE hn::Vec<U16Half> narrow_bf16(V32 v) {
#if HWY_TARGET == HWY_SCALAR
  return hn::TruncateTo(U16Half(), hn::ShiftRight<16>(round_to_bf16_bits(v)));
#else
  // The odd 16-bit lanes are the upper halves. This takes one permutation; TruncateTo would need a
  // shift first.
  const hn::Repartition<uint16_t, F32> du16;
  auto halves = hn::BitCast(du16, round_to_bf16_bits(v));
  return hn::LowerHalf(U16Half(), hn::ConcatOdd(du16, halves, halves));
#endif
}

// The conversions of fp16 round to nearest even, overflow to infinity and keep subnormals.
// Highway's scalar code does none of that.
#if HWY_TARGET == HWY_SCALAR
HWY_INLINE V32 widen_f16(hn::Vec<U16Half> bits) {
  return hn::Set(F32(), f16_to_float(hn::GetLane(bits)));
}
HWY_INLINE hn::Vec<U16Half> narrow_f16(V32 v) {
  return hn::Set(U16Half(), float_to_f16(hn::GetLane(v)));
}
#else
using F16Half = hn::Rebind<hwy::float16_t, F32>;
HWY_INLINE V32 widen_f16(hn::Vec<U16Half> bits) {
  return hn::PromoteTo(F32(), hn::BitCast(F16Half(), bits));
}
HWY_INLINE hn::Vec<U16Half> narrow_f16(V32 v) {
  return hn::BitCast(U16Half(), hn::DemoteTo(F16Half(), v));
}
#endif

// The 16-bit lanes of a float vector in another type.
HWY_INLINE V32 widen(hn::Vec<U16Half> bits, uint16_t) { return widen_bf16(bits); }
HWY_INLINE V32 widen(hn::Vec<U16Half> bits, Float16) { return widen_f16(bits); }
HWY_INLINE hn::Vec<U16Half> narrow(V32 v, uint16_t) { return narrow_bf16(v); }
HWY_INLINE hn::Vec<U16Half> narrow(V32 v, Float16) { return narrow_f16(v); }

HWY_INLINE uint16_t* bits_at(uint16_t* at) { return at; }
HWY_INLINE uint16_t* bits_at(Float16* at) { return reinterpret_cast<uint16_t*>(at); }
HWY_INLINE const uint16_t* bits_at(const uint16_t* at) { return at; }
HWY_INLINE const uint16_t* bits_at(const Float16* at) {
  return reinterpret_cast<const uint16_t*>(at);
}

HWY_INLINE V32 load(Whole, const float* from) { return hn::LoadU(F32(), from); }
template <typename T>
HWY_INLINE V32 load(Whole, const T* from) {
  return widen(hn::LoadU(U16Half(), bits_at(from)), T());
}

// Whether the target has loads and stores of some lanes that touch no memory past them.
template <typename T>
inline constexpr bool kHasMasks = HWY_TARGET <= (sizeof(T) == sizeof(float) ? HWY_AVX2 : HWY_AVX3);
template <typename T>
using TagOf = std::conditional_t<sizeof(T) == sizeof(float), F32, U16Half>;

// Only the last step of a row gets here, and no element past the row is touched. Through memory,
// where the target has no masks: the load waits for the stores of a call of memcpy, which takes
// longer than several whole vectors.
template <typename T>
HWY_INLINE V32 load(Partial part, const T* from) {
#if HWY_TARGET <= HWY_AVX2
  if constexpr (kHasMasks<T>) {
    const TagOf<T> d;
    const auto mask = hn::FirstN(d, static_cast<size_t>(part.count));
    if constexpr (sizeof(T) == sizeof(float))
      return hn::MaskedLoad(mask, d, from);
    else
      return widen(hn::MaskedLoad(mask, d, bits_at(from)), T());
  }
#endif
  HWY_ALIGN T buffer[HWY_MAX_BYTES / sizeof(float)] = {};
  std::memcpy(buffer, from, static_cast<size_t>(part.count) * sizeof(T));
  return load(Whole(), buffer);
}

// As load, with `rest` in the lanes past the count: the neutral element of a reduction other than a
// sum.
template <typename T>
HWY_INLINE V32 load_or(Whole, const T* from, V32) {
  return load(Whole(), from);
}
template <typename T>
HWY_INLINE V32 load_or(Partial part, const T* from, V32 rest) {
  auto mask = hn::FirstN(F32(), static_cast<size_t>(part.count));
  return hn::IfThenElse(mask, load(part, from), rest);
}

HWY_INLINE void store(Whole, V32 v, float* to) { hn::StoreU(v, F32(), to); }
template <typename T>
HWY_INLINE void store(Whole, V32 v, T* to) {
  hn::StoreU(narrow(v, T()), U16Half(), bits_at(to));
}
template <typename T>
HWY_INLINE void store(Partial part, V32 v, T* to) {
#if HWY_TARGET <= HWY_AVX2
  if constexpr (kHasMasks<T>) {
    const TagOf<T> d;
    const auto mask = hn::FirstN(d, static_cast<size_t>(part.count));
    if constexpr (sizeof(T) == sizeof(float))
      hn::BlendedStore(v, mask, d, to);
    else
      hn::BlendedStore(narrow(v, T()), mask, d, bits_at(to));
    return;
  }
#endif
  HWY_ALIGN T buffer[HWY_MAX_BYTES / sizeof(float)];
  store(Whole(), v, buffer);
  std::memcpy(to, buffer, static_cast<size_t>(part.count) * sizeof(T));
}

// If `streamed`, stores bypass the caches; the address must then be aligned (is_aligned).
HWY_INLINE void store(Whole, V32 v, float* to, bool streamed) {
  if (streamed) {
    hn::Stream(v, F32(), to);
  } else {
    hn::StoreU(v, F32(), to);
  }
}
template <typename T>
HWY_INLINE void store(Whole, V32 v, T* to, bool streamed) {
  if (streamed) {
    hn::Stream(narrow(v, T()), U16Half(), bits_at(to));
  } else {
    hn::StoreU(narrow(v, T()), U16Half(), bits_at(to));
  }
}
template <typename T>
HWY_INLINE void store(Partial part, V32 v, T* to, bool) {
  store(part, v, to);
}

// Streaming stores need aligned vectors; a row that starts elsewhere is stored normally.
HWY_INLINE bool is_aligned(const void* address) {
  return reinterpret_cast<uintptr_t>(address) % HWY_MAX_BYTES == 0;
}

HWY_INLINE void prefetch_to_l2(const void* address) { __builtin_prefetch(address, 0, 2); }

// Rows of operands of one shape to prefetch while the rows before them are computed, or none.
template <typename T, size_t kCount>
struct NextRows {
  const T* rows[kCount];  // all null if there are none

  HWY_INLINE void prefetch(int64_t i) const {
    if (rows[0] == nullptr) return;
    for (const T* row : rows) prefetch_to_l2(row + i);
  }
};

// Row n + 1 of each operand, or none. The hardware prefetchers stop at the end of a row that is a
// slice, and do not run far enough ahead of kernels that compute much (with this, the backward of
// bf16 RMSNorm went from 12.9 to 17.5 GB/s on one thread). Rows go to L2, not to L1, which the
// current row fills. There is no prefetch if the whole operand of `count` rows is under 1 MiB and
// so fits L2 anyway, or if a row is over 64 KiB, a good part of L2. The first operand must be
// present; the others may be absent.
template <typename T, typename... More>
HWY_INLINE NextRows<T, 1 + sizeof...(More)> rows_after(int64_t n,
                                                       Range range,
                                                       int64_t count,
                                                       int64_t width,
                                                       StridedRows<const T> first,
                                                       More... more) {
  const int64_t row_bytes = bytes_of<T>(width);
  const bool helps = count * row_bytes >= (1 << 20) && row_bytes <= (64 << 10);
  if (!helps || n + 1 >= range.end) return {};
  return {{first[n + 1], (more ? more : first)[n + 1]...}};
}

// Calls body(Whole or Partial, offset) along n elements.
template <typename Body>
HWY_INLINE void for_lanes(int64_t n, const Body& body) {
  const int64_t step = lanes();
  int64_t i = 0;
  for (; i + step <= n; i += step) body(Whole(), i);
  if (i < n) body(Partial{n - i}, i);
}

// Calls body(Whole or Partial, offset, accumulator) along n elements with four accumulators that
// start at `first`, and combines them as join(join(0, 1), join(2, 3)). The order is fixed, and no
// step waits for the latency of a single adder.
template <typename Body, typename Join>
HWY_INLINE V32 reduce_lanes(int64_t n, V32 first, const Body& body, const Join& join) {
  const int64_t step = lanes();
  V32 a0 = first, a1 = first, a2 = first, a3 = first;
  int64_t i = 0;
  for (; i + 4 * step <= n; i += 4 * step) {
    body(Whole(), i, a0);
    body(Whole(), i + step, a1);
    body(Whole(), i + 2 * step, a2);
    body(Whole(), i + 3 * step, a3);
  }
  for (; i + step <= n; i += step) body(Whole(), i, a0);
  if (i < n) body(Partial{n - i}, i, a1);
  return join(join(a0, a1), join(a2, a3));
}

// The sum over n elements of the values that body adds to its accumulator.
template <typename Body>
HWY_INLINE float sum_lanes(int64_t n, const Body& body) {
  V32 total =
      reduce_lanes(n, hn::Zero(F32()), body, [](V32 a, V32 b) HWY_ATTR { return hn::Add(a, b); });
  return hn::GetLane(hn::SumOfLanes(F32(), total));
}

// The greatest of n elements, ignoring NaN; -infinity if there is none.
template <typename T>
HWY_INLINE float row_max(const T* x, int64_t n) {
  const V32 none = hn::Set(F32(), -std::numeric_limits<float>::infinity());
  const V32 highest = reduce_lanes(
      n, none,
      [&](auto part, int64_t i, V32& best) HWY_ATTR {
        best = hn::Max(load_or(part, x + i, none), best);  // x86: the second operand if one is NaN
      },
      [](V32 a, V32 b) HWY_ATTR { return hn::Max(a, b); });
  return hn::GetLane(hn::MaxOfLanes(F32(), highest));
}

// The sum of the squares of n elements.
template <typename T>
HWY_INLINE float row_sum_squares(const T* x, int64_t n) {
  return sum_lanes(n, [&](auto part, int64_t i, V32& total) HWY_ATTR {
    V32 v = load(part, x + i);
    total = hn::MulAdd(v, v, total);
  });
}

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
