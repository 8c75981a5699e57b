// SPDX-License-Identifier: Apache-2.0
// Fills tiles from vectors: rounding, transposing between the forms of the two operands, and
// storing. Private to the kernels that fill tiles; for AVX-512.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/tile_gemm/tile_shape.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512bf16,avx2,fma")
// GCC 12 warns about operands that the header leaves undefined on purpose.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>

namespace ridge::backends::cpu {

// 32 columns in one register of bf16.
inline __m512i rounded(__m512 first, __m512 second) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(second, first));
}

inline void store_tile(const __m512i (&v)[16], uint16_t* to) {
#pragma GCC unroll 16
  for (int r = 0; r < 16; ++r) _mm512_store_si512(to + r * kTileDepth, v[r]);
}

// Transposes 16 x 16 words of 32 bits (pairs of bf16), with a row in each register: first within
// 128-bit lanes, then across them.
inline void transpose_words(__m512i (&v)[16]) {
  __m512i w[16];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    w[2 * i] = _mm512_unpacklo_epi32(v[2 * i], v[2 * i + 1]);
    w[2 * i + 1] = _mm512_unpackhi_epi32(v[2 * i], v[2 * i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    v[4 * i] = _mm512_unpacklo_epi64(w[4 * i], w[4 * i + 2]);
    v[4 * i + 1] = _mm512_unpackhi_epi64(w[4 * i], w[4 * i + 2]);
    v[4 * i + 2] = _mm512_unpacklo_epi64(w[4 * i + 1], w[4 * i + 3]);
    v[4 * i + 3] = _mm512_unpackhi_epi64(w[4 * i + 1], w[4 * i + 3]);
  }
  // Lane l of v[4 i + j] holds column 4 l + j of rows 4 i .. 4 i + 3.
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const __m512i a = _mm512_shuffle_i32x4(v[j], v[4 + j], 0x88);
    const __m512i b = _mm512_shuffle_i32x4(v[j], v[4 + j], 0xdd);
    const __m512i c = _mm512_shuffle_i32x4(v[8 + j], v[12 + j], 0x88);
    const __m512i d = _mm512_shuffle_i32x4(v[8 + j], v[12 + j], 0xdd);
    w[j] = _mm512_shuffle_i32x4(a, c, 0x88);
    w[8 + j] = _mm512_shuffle_i32x4(a, c, 0xdd);
    w[4 + j] = _mm512_shuffle_i32x4(b, d, 0x88);
    w[12 + j] = _mm512_shuffle_i32x4(b, d, 0xdd);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) v[i] = w[i];
}

}  // namespace ridge::backends::cpu
#pragma GCC pop_options
