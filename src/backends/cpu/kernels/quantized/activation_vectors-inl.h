// SPDX-License-Identifier: Apache-2.0
// Per-target: vectors of activations, and the reduction of four of them at a time, for the rounding
// of activations. packed_blocks_avx2-inl.h and packed_blocks_avx512-inl.h pack what is rounded.
#include <hwy/highway.h>

#include <cstdint>

#if defined(RIDGE_CPU_ACTIVATION_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RIDGE_CPU_ACTIVATION_VECTORS_INL_H_
#undef RIDGE_CPU_ACTIVATION_VECTORS_INL_H_
#else
#define RIDGE_CPU_ACTIVATION_VECTORS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

const HWY_CAPPED(float, 16) kFloats;
using Floats = decltype(kFloats);
const hn::RebindToSigned<Floats> kInts;
using IntVector = hn::Vec<decltype(kInts)>;
constexpr size_t kLanes = hn::MaxLanes(kFloats);

#if HWY_TARGET != HWY_SCALAR
constexpr int kPackedGroup = 4;
const hn::Full128<float> kFourFloats;
const hn::Full128<int32_t> kFourInts;
using FourFloats = hn::Vec<hn::Full128<float>>;
using FourInts = hn::Vec<hn::Full128<int32_t>>;

// The sums of eight half blocks, in order.
struct HalfSums {
  FourInts first, second;
};

// Reduces two vectors: each 128 bits of the result have partial results of a and b in turn.
template <typename Reduce>
HWY_INLINE IntVector in_turn(IntVector a, IntVector b, const Reduce& reduce) {
  return reduce(hn::InterleaveLower(kInts, a, b), hn::InterleaveUpper(kInts, a, b));
}

// Reduces each of four vectors to a number.
template <typename Reduce>
HWY_INLINE FourInts reduce_four(const IntVector* v, const Reduce& reduce) {
  const hn::Repartition<int64_t, decltype(kInts)> pairs;
  const auto a = hn::BitCast(pairs, in_turn(v[0], v[1], reduce)),
             b = hn::BitCast(pairs, in_turn(v[2], v[3], reduce));
  const IntVector all = reduce(hn::BitCast(kInts, hn::InterleaveLower(pairs, a, b)),
                               hn::BitCast(kInts, hn::InterleaveUpper(pairs, a, b)));
  const hn::Half<decltype(kInts)> half;
  const auto both = reduce(hn::LowerHalf(half, all), hn::UpperHalf(half, all));
#if HWY_TARGET == HWY_AVX2
  return both;
#else
  return reduce(hn::LowerHalf(kFourInts, both), hn::UpperHalf(kFourInts, both));
#endif
}

#endif

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
