// SPDX-License-Identifier: Apache-2.0
// Scales and quants of repacked tiles of 16 rows in 256-bit vectors, with 8 rows of W in the lanes
// of each. Private to the kernels that read tiles with AVX2; repacked_quants_avx512-inl.h has the
// 512-bit form.
#pragma once

#include <cstdint>

#include "base/repacked_tiles.h"

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#include <immintrin.h>

namespace ridge::backends::cpu {
namespace {

inline __m256i load(const void* from) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}
// Loads rows 0..7 or 8..15 of a tile.
inline __m256i load(const uint8_t (&group)[16][4], int rows) { return load(group[8 * rows]); }
inline __m256 floats_of_halves(const uint16_t* halves, int rows) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(halves) + rows));
}
inline __m256 floats_of_bytes(const uint8_t* bytes, int rows) {
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadu_si64(bytes + 8 * rows)));
}
inline __m256 floats_of_bytes(const int8_t* bytes, int rows) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadu_si64(bytes + 8 * rows)));
}

// Bytes of Q4_K's scales (base/block_formats.h): the low six bits, or four bits and the top two of
// another byte.
inline __m256i low_six(__m256i bytes) { return _mm256_and_si256(bytes, _mm256_set1_epi8(0x3f)); }
inline __m256i joined(__m256i low_four, __m256i top_two) {
  return _mm256_or_si256(_mm256_and_si256(low_four, _mm256_set1_epi8(0x0f)),
                         _mm256_and_si256(_mm256_srli_epi16(top_two, 2), _mm256_set1_epi8(0x30)));
}

inline __m256i low_nibbles(__m256i bytes) { return _mm256_and_si256(bytes, _mm256_set1_epi8(15)); }
inline __m256i high_nibbles(__m256i bytes) { return low_nibbles(_mm256_srli_epi16(bytes, 4)); }

// The bits of quants in `mask`: moved to the left, or to the right if `left` is negative.
inline __m256i moved_bits(__m256i bits, int left, int mask) {
  const __m256i moved = left >= 0 ? _mm256_slli_epi16(bits, left) : _mm256_srli_epi16(bits, -left);
  return _mm256_and_si256(moved, _mm256_set1_epi8(static_cast<char>(mask)));
}

// The quants of the group-th four columns of those that scale s applies to.
template <typename Tile>
inline __m256i load_quants(const Tile& tile, int s, int group, int rows) {
  const __m256i both = load(tile.quants[s][group % 4], rows);
  const __m256i low = group < 4 ? low_nibbles(both) : high_nibbles(both);
  if constexpr (requires { tile.high_bits; })
    return _mm256_or_si256(low, moved_bits(load(tile.high_bits[s], rows), 4 - group, 16));
  return low;
}
inline __m256i load_quants(const TileQ8_0& tile, int s, int group, int rows) {
  return load(tile.quants[s][group], rows);
}
inline __m256i load_quants(const TileQ4_K& tile, int s, int group, int rows) {
  const __m256i both = load(tile.quants[s / 2][group], rows);
  return s % 2 == 0 ? low_nibbles(both) : high_nibbles(both);
}
inline __m256i load_quants(const TileQ6_K& tile, int s, int group, int rows) {
  const __m256i both = load(tile.low_bits[s][group / 2], rows),
                low = group % 2 == 0 ? low_nibbles(both) : high_nibbles(both);
  return _mm256_or_si256(low, moved_bits(load(tile.high_bits[s], rows), 4 - 2 * group, 48));
}

// Quants of four columns as int16: columns 0 and 2 of each row, and columns 1 and 3.
struct ColumnPairs {
  explicit ColumnPairs(__m256i quants)
      : even(_mm256_and_si256(quants, _mm256_set1_epi16(255))), odd(_mm256_srli_epi16(quants, 8)) {}
  __m256i even, odd;
};

// The scales that the quants of a tile are multiplied by, and the mins that are added.
template <typename Tile>
struct Scales {
  explicit Scales(const Tile& of) : tile(of) {}
  __m256 scale(int s, int rows) const { return floats_of_halves(tile.scales[s], rows); }
  __m256 min(int s, int rows) const { return floats_of_halves(tile.mins[s], rows); }
  const Tile& tile;
};

// The six-bit scales of all sub-blocks are unpacked at once, as bytes.
template <>
struct Scales<TileQ4_K> {
  explicit Scales(const TileQ4_K& tile) {
    for (int half = 0; half < 2; ++half) {
      all[half] = floats_of_halves(tile.scales, half);
      all_min[half] = _mm256_sub_ps(_mm256_setzero_ps(), floats_of_halves(tile.mins, half));
      const auto bytes = [&](int from) { return load(tile.sub_scales[from + 2 * half]); };
      const auto store = [&](uint8_t(*to)[16], __m256i from) {
        _mm256_store_si256(reinterpret_cast<__m256i*>(to[2 * half]), from);
      };
      const __m256i first = bytes(0), second = bytes(4), third = bytes(8);
      store(scales, low_six(first));
      store(scales + 4, joined(third, first));
      store(mins, low_six(second));
      store(mins + 4, joined(_mm256_srli_epi16(third, 4), second));
    }
  }
  __m256 scale(int s, int rows) const {
    return _mm256_mul_ps(all[rows], floats_of_bytes(scales[s], rows));
  }
  __m256 min(int s, int rows) const {
    return _mm256_mul_ps(all_min[rows], floats_of_bytes(mins[s], rows));
  }

  __m256 all[2], all_min[2];  // the super-block has them
  alignas(32) uint8_t scales[8][16];
  alignas(32) uint8_t mins[8][16];
};

template <>
struct Scales<TileQ6_K> {
  explicit Scales(const TileQ6_K& of)
      : tile(of), all{floats_of_halves(of.scales, 0), floats_of_halves(of.scales, 1)} {}
  __m256 scale(int s, int rows) const {
    return _mm256_mul_ps(all[rows], floats_of_bytes(tile.sub_scales[s], rows));
  }
  const TileQ6_K& tile;
  __m256 all[2];
};

}  // namespace
}  // namespace ridge::backends::cpu
#pragma GCC pop_options
