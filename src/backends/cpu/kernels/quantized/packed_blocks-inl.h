// SPDX-License-Identifier: Apache-2.0
// Per-target: four blocks of 32 codes at a time, packed to words, for the rounding of activations. Most
// of it is in intrinsics, for which Highway 1.0 has no names.
#include <hwy/highway.h>

#include <cstdint>

#if defined(RIDGE_CPU_PACKED_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RIDGE_CPU_PACKED_BLOCKS_INL_H_
#undef RIDGE_CPU_PACKED_BLOCKS_INL_H_
#else
#define RIDGE_CPU_PACKED_BLOCKS_INL_H_
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

// Of eight half blocks, in order.
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

#if HWY_TARGET == HWY_AVX2
// The words of each half block. Each 128 bits have four of its first eight codes and four of its last.
struct PackedBlock {
  __m256i halves[2];
};

// Rounds to nearest even. NaN and infinity become -2^31.
HWY_INLINE IntVector nearest_code(hn::Vec<Floats> v) {
  return IntVector{_mm256_cvtps_epi32(v.raw)};
}

HWY_INLINE PackedBlock packed(const IntVector* codes) {
  return {_mm256_packs_epi32(codes[0].raw, codes[1].raw),
          _mm256_packs_epi32(codes[2].raw, codes[3].raw)};
}

HWY_INLINE HalfSums half_sums_of(const PackedBlock* blocks) {
  const auto add = [](auto a, auto b) { return hn::Add(a, b); };
  IntVector sums[2 * kPackedGroup];
  for (int i = 0; i < 2 * kPackedGroup; ++i)
    sums[i] = IntVector{_mm256_madd_epi16(blocks[i / 2].halves[i % 2], _mm256_set1_epi16(1))};
  return {reduce_four(sums, add), reduce_four(sums + 4, add)};
}

// In the order of columns, with each four in the order 0, 2, 1, 3.
HWY_INLINE void store_words(const PackedBlock* blocks, int16_t* to) {
  const __m256i order = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15));
  for (int i = 0; i < 2 * kPackedGroup; ++i, to += 16) {
    const __m256i fours = _mm256_permute4x64_epi64(blocks[i / 2].halves[i % 2], 0xd8);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_shuffle_epi8(fours, order));
  }
}

HWY_INLINE void store_bytes(const PackedBlock* blocks, int8_t* to) {
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  for (int b = 0; b < kPackedGroup; ++b, to += 32) {
    const __m256i bytes = _mm256_packs_epi16(blocks[b].halves[0], blocks[b].halves[1]);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permutevar8x32_epi32(bytes, order));
  }
}
#else
// Each 128 bits have four words of a block's first half and four of its second.
using PackedBlock = __m512i;

// Rounds to nearest even. NaN and infinity become -2^31.
HWY_INLINE IntVector nearest_code(hn::Vec<Floats> v) {
  return IntVector{_mm512_cvtps_epi32(v.raw)};
}

HWY_INLINE PackedBlock packed(const IntVector* codes) {
  return _mm512_packs_epi32(codes[0].raw, codes[1].raw);
}

// Adds neighbours, 32 bits or pairs of 32 bits, of a followed by b.
template <typename Tag>
HWY_INLINE IntVector neighbours_added(Tag tag, IntVector a, IntVector b) {
  const auto first = hn::BitCast(tag, a), second = hn::BitCast(tag, b);
  return hn::Add(hn::BitCast(kInts, hn::ConcatEven(tag, second, first)),
                 hn::BitCast(kInts, hn::ConcatOdd(tag, second, first)));
}

HWY_INLINE HalfSums half_sums_of(const PackedBlock* blocks) {
  const hn::Repartition<int64_t, decltype(kInts)> pairs;
  IntVector twos[kPackedGroup];
  for (int b = 0; b < kPackedGroup; ++b)
    twos[b] = IntVector{_mm512_madd_epi16(blocks[b], _mm512_set1_epi16(1))};
  const IntVector eights = neighbours_added(pairs, neighbours_added(kInts, twos[0], twos[1]),
                                            neighbours_added(kInts, twos[2], twos[3]));
  const auto sums = hn::LowerHalf(neighbours_added(pairs, eights, eights));
  return {hn::LowerHalf(sums), hn::UpperHalf(kFourInts, sums)};
}

// In the order of columns, with each four in the order 0, 2, 1, 3.
HWY_INLINE void store_words(const PackedBlock* blocks, int16_t* to) {
  alignas(64) static constexpr int16_t kOrder[32] = {0,  2,  1,  3,  8,  10, 9,  11, 16, 18, 17,
                                                     19, 24, 26, 25, 27, 4,  6,  5,  7,  12, 14,
                                                     13, 15, 20, 22, 21, 23, 28, 30, 29, 31};
  const __m512i order = _mm512_load_si512(kOrder);
  for (int b = 0; b < kPackedGroup; ++b, to += 32)
    _mm512_storeu_si512(to, _mm512_permutexvar_epi16(order, blocks[b]));
}

HWY_INLINE void store_bytes(const PackedBlock* blocks, int8_t* to) {
  // Each 128 bits of two blocks have four codes of each of the four half blocks.
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  for (int b = 0; b < kPackedGroup; b += 2, to += 64) {
    const __m512i bytes = _mm512_packs_epi16(blocks[b], blocks[b + 1]);
    _mm512_storeu_si512(to, _mm512_permutexvar_epi32(order, bytes));
  }
}
#endif
#endif

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
