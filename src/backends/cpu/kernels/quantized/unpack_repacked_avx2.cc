// SPDX-License-Identifier: Apache-2.0
// Unpacks repacked tiles of 16 rows to int16 or uint8 for the GEMM path, with AVX2.
// unpack_repacked_avx512.cc has the form for AVX-512; unpack.cc unpacks rows of blocks.
#include <cstdint>

#include "backends/cpu/kernels/quantized/inner_loops.h"
#include "backends/cpu/kernels/quantized/repacked_quants_avx2-inl.h"
#include "base/repacked_tiles.h"

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#include <immintrin.h>

namespace ridge::backends::cpu {
namespace {

inline void store(__m256i quants, void* to) {
  _mm256_store_si256(static_cast<__m256i*>(to), quants);
}

// The columns of scale s.
template <typename Tile>
inline void unpack_int16(const Tile& tile, int s, UnpackedRows& to, int64_t at) {
  int16_t* int16_to = to.int16_quants + at * Tile::kScaleColumns * kRowBlockRows;
  const __m256i offset = _mm256_set1_epi16(Tile::kOffset);
#pragma GCC unroll 8
  for (int group = 0; group < Tile::kScaleColumns / 4; ++group, int16_to += 4 * kRowBlockRows) {
#pragma GCC unroll 2
    for (int rows = 0; rows < 2; ++rows) {
      const ColumnPairs pairs(load_quants(tile, s, group, rows));
      store(_mm256_sub_epi16(pairs.even, offset), int16_to + kRowBlockRows * rows);
      store(_mm256_sub_epi16(pairs.odd, offset), int16_to + kPairQuants + kRowBlockRows * rows);
    }
  }
}

template <typename Tile>
inline void unpack_int8(const Tile& tile, int s, UnpackedRows& to, int64_t at) {
  uint8_t* uint8_to = to.uint8_quants + at * Tile::kScaleColumns * kRowBlockRows;
#pragma GCC unroll 8
  for (int group = 0; group < Tile::kScaleColumns / 4; ++group, uint8_to += kStepBytes)
#pragma GCC unroll 2
    for (int rows = 0; rows < 2; ++rows)
      store(load_quants(tile, s, group, rows), uint8_to + kStepBytes / 2 * rows);
}

template <bool kIsInt8, typename Tile>
void unpack(const Tile* tile, int64_t depth, UnpackedRows& to) {
  int64_t at = 0;  // index of the scale
  __m256 zero_or_nan[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
  for (int64_t column = 0; column < depth; column += Tile::kColumns, ++tile) {
    const Scales<Tile> scales(*tile);
    for (int s = 0; s < kScaleCount<Tile>; ++s, ++at) {
      if constexpr (kIsInt8)
        unpack_int8(*tile, s, to, at);
      else
        unpack_int16(*tile, s, to, at);
      for (int rows = 0; rows < 2; ++rows) {
        const int64_t lane = at * kRowBlockRows + 8 * rows;
        const __m256 scale = scales.scale(s, rows);
        zero_or_nan[rows] = _mm256_fmadd_ps(scale, _mm256_setzero_ps(), zero_or_nan[rows]);
        _mm256_store_ps(to.scales + lane, scale);
        if constexpr (requires { tile->mins; })
          _mm256_store_ps(to.offsets + lane, scales.min(s, rows));
      }
    }
  }
  for (int rows = 0; rows < 2; ++rows)
    _mm256_store_ps(to.zero_or_nan + 8 * rows, zero_or_nan[rows]);
}

template <bool kIsInt8>
void unpack_part(const WeightPart& part, UnpackedRows& rows) {
  with_tile_type(part.weight.dtype, [&](auto type) {
    using Tile = typename decltype(type)::type;
    unpack<kIsInt8>(first_tile<Tile>(part), part.depth, rows);
  });
}

}  // namespace

// Bound: stores, one of 32 bytes per cycle.
void unpack_repacked_avx2(const WeightPart& part, UnpackedRows& rows) {
  unpack_part<false>(part, rows);
}

// Bound: half as many stores.
void unpack_repacked_int8_avx2(const WeightPart& part, UnpackedRows& rows) {
  unpack_part<true>(part, rows);
}

}  // namespace ridge::backends::cpu
#pragma GCC pop_options
