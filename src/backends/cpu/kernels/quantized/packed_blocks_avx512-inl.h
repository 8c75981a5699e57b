// SPDX-License-Identifier: Apache-2.0
// Four blocks of 32 quants at a time, packed to int16, with AVX-512: in intrinsics, for which
// Highway 1.0 has no names. activations.cc includes it for that target alone.
#include "backends/cpu/kernels/quantized/activation_vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

// Each 128 bits have four quants of a block's first half and four of its second.
using PackedBlock = __m512i;

// As `nearest`, in one instruction; NaN and infinity become -2^31.
HWY_INLINE IntVector nearest_quant(hn::Vec<Floats> v) {
  return IntVector{_mm512_cvtps_epi32(v.raw)};
}

HWY_INLINE PackedBlock packed(const IntVector* quants) {
  return _mm512_packs_epi32(quants[0].raw, quants[1].raw);
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
HWY_INLINE void store_int16(const PackedBlock* blocks, int16_t* to) {
  alignas(64) static constexpr int16_t kOrder[32] = {0,  2,  1,  3,  8,  10, 9,  11, 16, 18, 17,
                                                     19, 24, 26, 25, 27, 4,  6,  5,  7,  12, 14,
                                                     13, 15, 20, 22, 21, 23, 28, 30, 29, 31};
  const __m512i order = _mm512_load_si512(kOrder);
  for (int b = 0; b < kPackedGroup; ++b, to += 32)
    _mm512_storeu_si512(to, _mm512_permutexvar_epi16(order, blocks[b]));
}

HWY_INLINE void store_int8(const PackedBlock* blocks, int8_t* to) {
  // Each 128 bits of two blocks have four quants of each of the four half blocks.
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  for (int b = 0; b < kPackedGroup; b += 2, to += 64) {
    const __m512i bytes = _mm512_packs_epi16(blocks[b], blocks[b + 1]);
    _mm512_storeu_si512(to, _mm512_permutexvar_epi32(order, bytes));
  }
}

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
