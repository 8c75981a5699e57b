// SPDX-License-Identifier: Apache-2.0
// Repacked tiles of 16 rows in 512-bit vectors, with a row of W in each lane. Private to kernels
// that read tiles with AVX-512.
#pragma once

#include <cstdint>

#include "base/repacked_tiles.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx2,fma")
// GCC 12 warns about operands that the header leaves undefined on purpose.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>

namespace ridge::backends::cpu {
namespace {

using Bytes = __m512i;
using Floats = __m512;

inline Bytes load(const void* from) { return _mm512_loadu_si512(from); }
inline void store(Bytes bytes, void* to) { _mm512_store_si512(to, bytes); }
inline Bytes masked(Bytes bytes, int mask) {
  return _mm512_and_si512(bytes, _mm512_set1_epi8(static_cast<char>(mask)));
}
inline Bytes either(Bytes a, Bytes b) { return _mm512_or_si512(a, b); }
inline Bytes moved_left(Bytes bits, int count) {
  return _mm512_slli_epi16(bits, static_cast<unsigned>(count));
}
inline Bytes moved_right(Bytes bits, int count) {
  return _mm512_srli_epi16(bits, static_cast<unsigned>(count));
}

// In 16-bit lanes: the low bytes, the high bytes, and the lanes less a number.
inline Bytes low_bytes(Bytes pairs) { return _mm512_and_si512(pairs, _mm512_set1_epi16(255)); }
inline Bytes high_bytes(Bytes pairs) { return moved_right(pairs, 8); }
inline Bytes less(Bytes pairs, int16_t offset) {
  return _mm512_sub_epi16(pairs, _mm512_set1_epi16(offset));
}

inline Floats zero() { return _mm512_setzero_ps(); }
inline void store(Floats floats, float* to) { _mm512_store_ps(to, floats); }
inline Floats product_and_sum(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
inline Floats product(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
inline Floats negative(Floats a) { return _mm512_sub_ps(_mm512_setzero_ps(), a); }
inline Floats floats_of_halves(const uint16_t* halves, int) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(halves)));
}
inline Floats floats_of_bytes(const uint8_t* bytes, int) {
  return _mm512_cvtepi32_ps(
      _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes))));
}
inline Floats floats_of_bytes(const int8_t* bytes, int) {
  return _mm512_cvtepi32_ps(
      _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes))));
}

}  // namespace
}  // namespace ridge::backends::cpu

#include "backends/cpu/kernels/quantized/repacked_quants-inl.h"

#pragma GCC pop_options
