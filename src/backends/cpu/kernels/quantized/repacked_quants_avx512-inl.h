// SPDX-License-Identifier: Apache-2.0
// Scales and quants of repacked tiles of 16 rows in 512-bit vectors, with a row of W in each lane.
// Private to the kernels that read tiles with AVX-512.
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

inline __m512i load(const void* from) { return _mm512_loadu_si512(from); }
inline __m512 floats_of_halves(const uint16_t* halves) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(halves)));
}

inline __m512 floats_of_bytes(const uint8_t* bytes) {
  return _mm512_cvtepi32_ps(
      _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes))));
}
inline __m512 floats_of_bytes(const int8_t* bytes) {
  return _mm512_cvtepi32_ps(
      _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes))));
}

// Bytes of Q4_K's scales (base/block_formats.h): the low six bits, or four bits and the top two of
// another byte.
inline __m512i low_six(__m512i bytes) { return _mm512_and_si512(bytes, _mm512_set1_epi8(0x3f)); }
inline __m512i joined(__m512i low_four, __m512i top_two) {
  return _mm512_or_si512(_mm512_and_si512(low_four, _mm512_set1_epi8(0x0f)),
                         _mm512_and_si512(_mm512_srli_epi16(top_two, 2), _mm512_set1_epi8(0x30)));
}

// The scales that the quants of a tile are multiplied by, and the mins that are added.
template <typename Tile>
struct Scales {
  explicit Scales(const Tile& of) : tile(of) {}
  __m512 scale(int s) const { return floats_of_halves(tile.scales[s]); }
  __m512 min(int s) const { return floats_of_halves(tile.mins[s]); }
  const Tile& tile;
};

// The six-bit scales of all sub-blocks are unpacked at once, as bytes.
template <>
struct Scales<TileQ4_K> {
  explicit Scales(const TileQ4_K& tile)
      : all(floats_of_halves(tile.scales)),
        all_min(_mm512_sub_ps(_mm512_setzero_ps(), floats_of_halves(tile.mins))) {
    const __m512i first = load(tile.sub_scales[0]), second = load(tile.sub_scales[4]),
                  third = load(tile.sub_scales[8]);
    _mm512_store_si512(scales[0], low_six(first));
    _mm512_store_si512(scales[4], joined(third, first));
    _mm512_store_si512(mins[0], low_six(second));
    _mm512_store_si512(mins[4], joined(_mm512_srli_epi16(third, 4), second));
  }
  __m512 scale(int s) const { return _mm512_mul_ps(all, floats_of_bytes(scales[s])); }
  __m512 min(int s) const { return _mm512_mul_ps(all_min, floats_of_bytes(mins[s])); }

  __m512 all, all_min;  // the super-block has them
  alignas(64) uint8_t scales[8][16];
  alignas(64) uint8_t mins[8][16];
};

template <>
struct Scales<TileQ6_K> {
  explicit Scales(const TileQ6_K& of) : tile(of), all(floats_of_halves(of.scales)) {}
  __m512 scale(int s) const { return _mm512_mul_ps(all, floats_of_bytes(tile.sub_scales[s])); }
  const TileQ6_K& tile;
  __m512 all;
};

inline __m512i low_nibbles(__m512i bytes) { return _mm512_and_si512(bytes, _mm512_set1_epi8(15)); }
inline __m512i high_nibbles(__m512i bytes) { return low_nibbles(_mm512_srli_epi16(bytes, 4)); }

// The bits of quants in `mask`: moved to the left, or to the right if `left` is negative.
inline __m512i moved_bits(__m512i bits, int left, int mask) {
  const __m512i moved = left >= 0 ? _mm512_slli_epi16(bits, left) : _mm512_srli_epi16(bits, -left);
  return _mm512_and_si512(moved, _mm512_set1_epi8(static_cast<char>(mask)));
}

// The quants of the group-th four columns of those that scale s applies to.
template <typename Tile>
inline __m512i load_quants(const Tile& tile, int s, int group) {
  const __m512i both = load(tile.quants[s][group % 4]);
  const __m512i low = group < 4 ? low_nibbles(both) : high_nibbles(both);
  if constexpr (requires { tile.high_bits; })
    return _mm512_or_si512(low, moved_bits(load(tile.high_bits[s]), 4 - group, 16));
  return low;
}
inline __m512i load_quants(const TileQ8_0& tile, int s, int group) {
  return load(tile.quants[s][group]);
}
inline __m512i load_quants(const TileQ4_K& tile, int s, int group) {
  const __m512i both = load(tile.quants[s / 2][group]);
  return s % 2 == 0 ? low_nibbles(both) : high_nibbles(both);
}
inline __m512i load_quants(const TileQ6_K& tile, int s, int group) {
  const __m512i both = load(tile.low_bits[s][group / 2]),
                low = group % 2 == 0 ? low_nibbles(both) : high_nibbles(both);
  return _mm512_or_si512(low, moved_bits(load(tile.high_bits[s]), 4 - 2 * group, 48));
}

}  // namespace
}  // namespace ridge::backends::cpu
#pragma GCC pop_options
