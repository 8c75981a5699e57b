// SPDX-License-Identifier: Apache-2.0
// Repacked tiles of 16 rows in 256-bit vectors, with 8 rows of W in the lanes of each. Private to
// kernels that read tiles with AVX2; repacked_quants_avx512-inl.h has the 512-bit form.
#pragma once

#include <cstdint>

#include "base/repacked_tiles.h"

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#include <immintrin.h>

namespace ridge::backends::cpu {
namespace {

using Bytes = __m256i;
using Floats = __m256;

inline Bytes load(const void* from) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}
inline void store(Bytes bytes, void* to) { _mm256_store_si256(static_cast<__m256i*>(to), bytes); }
inline Bytes masked(Bytes bytes, int mask) {
  return _mm256_and_si256(bytes, _mm256_set1_epi8(static_cast<char>(mask)));
}
inline Bytes either(Bytes a, Bytes b) { return _mm256_or_si256(a, b); }
inline Bytes moved_left(Bytes bits, int count) { return _mm256_slli_epi16(bits, count); }
inline Bytes moved_right(Bytes bits, int count) { return _mm256_srli_epi16(bits, count); }

// In 16-bit lanes: the low bytes, the high bytes, and the lanes less a number.
inline Bytes low_bytes(Bytes pairs) { return _mm256_and_si256(pairs, _mm256_set1_epi16(255)); }
inline Bytes high_bytes(Bytes pairs) { return moved_right(pairs, 8); }
inline Bytes less(Bytes pairs, int16_t offset) {
  return _mm256_sub_epi16(pairs, _mm256_set1_epi16(offset));
}

inline Floats zero() { return _mm256_setzero_ps(); }
inline void store(Floats floats, float* to) { _mm256_store_ps(to, floats); }
inline Floats product_and_sum(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
inline Floats product(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
inline Floats negative(Floats a) { return _mm256_sub_ps(_mm256_setzero_ps(), a); }
// The half is rows 0..7 or 8..15.
inline Floats floats_of_halves(const uint16_t* halves, int half) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(halves) + half));
}
inline Floats floats_of_bytes(const uint8_t* bytes, int half) {
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadu_si64(bytes + 8 * half)));
}
inline Floats floats_of_bytes(const int8_t* bytes, int half) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadu_si64(bytes + 8 * half)));
}

}  // namespace
}  // namespace ridge::backends::cpu

#include "backends/cpu/kernels/quantized/repacked_quants-inl.h"

#pragma GCC pop_options
