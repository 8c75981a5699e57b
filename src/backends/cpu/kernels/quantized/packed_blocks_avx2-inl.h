// SPDX-License-Identifier: Apache-2.0
// Four blocks of 32 quants at a time, packed to int16, with AVX2: in intrinsics, for which Highway
// 1.0 has no names. activations.cc includes it for that target alone.
#include "backends/cpu/kernels/quantized/activation_vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

// Each half block's quants. Each 128 bits have four of its first eight quants and four of its last.
struct PackedBlock {
  __m256i halves[2];
};

// As `nearest`, in one instruction; NaN and infinity become -2^31.
HWY_INLINE IntVector nearest_quant(hn::Vec<Floats> v) {
  return IntVector{_mm256_cvtps_epi32(v.raw)};
}

HWY_INLINE PackedBlock packed(const IntVector* quants) {
  return {_mm256_packs_epi32(quants[0].raw, quants[1].raw),
          _mm256_packs_epi32(quants[2].raw, quants[3].raw)};
}

HWY_INLINE HalfSums half_sums_of(const PackedBlock* blocks) {
  const auto add = [](auto a, auto b) { return hn::Add(a, b); };
  IntVector sums[2 * kPackedGroup];
  for (int i = 0; i < 2 * kPackedGroup; ++i)
    sums[i] = IntVector{_mm256_madd_epi16(blocks[i / 2].halves[i % 2], _mm256_set1_epi16(1))};
  return {reduce_four(sums, add), reduce_four(sums + 4, add)};
}

// In the order of columns, with each four in the order 0, 2, 1, 3.
HWY_INLINE void store_int16(const PackedBlock* blocks, int16_t* to) {
  const __m256i order = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15));
  for (int i = 0; i < 2 * kPackedGroup; ++i, to += 16) {
    const __m256i fours = _mm256_permute4x64_epi64(blocks[i / 2].halves[i % 2], 0xd8);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_shuffle_epi8(fours, order));
  }
}

HWY_INLINE void store_int8(const PackedBlock* blocks, int8_t* to) {
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  for (int b = 0; b < kPackedGroup; ++b, to += 32) {
    const __m256i bytes = _mm256_packs_epi16(blocks[b].halves[0], blocks[b].halves[1]);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permutevar8x32_epi32(bytes, order));
  }
}

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
