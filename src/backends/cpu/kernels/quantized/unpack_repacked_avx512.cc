// SPDX-License-Identifier: Apache-2.0
// Unpacks repacked tiles of 16 rows to int16 or uint8 for the GEMM path, with AVX-512.
// unpack_repacked_avx2.cc has the form for AVX2.
#include <cstdint>

#include "backends/cpu/kernels/quantized/inner_loops.h"
#include "backends/cpu/kernels/quantized/repacked_quants_avx512-inl.h"
#include "base/repacked_tiles.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx2,fma,f16c")
// GCC 12 warns about operands that the header leaves undefined on purpose.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>

namespace ridge::backends::cpu {
namespace {

// The columns of scale s: columns 0 and 2 of each four, then columns 1 and 3.
template <typename Tile>
inline void unpack_int16(const Tile& tile, int s, UnpackedRows& to, int64_t at) {
  int16_t* int16_to = to.int16_quants + at * Tile::kScaleColumns * kRowBlockRows;
  const __m512i offset = _mm512_set1_epi16(Tile::kOffset);
#pragma GCC unroll 8
  for (int group = 0; group < Tile::kScaleColumns / 4; ++group, int16_to += 2 * kPairQuants) {
    const __m512i loaded = load_quants(tile, s, group);
    const __m512i even = _mm512_and_si512(loaded, _mm512_set1_epi16(255)),
                  odd = _mm512_srli_epi16(loaded, 8);
    _mm512_store_si512(int16_to, _mm512_sub_epi16(even, offset));
    _mm512_store_si512(int16_to + kPairQuants, _mm512_sub_epi16(odd, offset));
  }
}

template <typename Tile>
inline void unpack_int8(const Tile& tile, int s, UnpackedRows& to, int64_t at) {
  uint8_t* uint8_to = to.uint8_quants + at * Tile::kScaleColumns * kRowBlockRows;
#pragma GCC unroll 8
  for (int group = 0; group < Tile::kScaleColumns / 4; ++group, uint8_to += kStepBytes)
    _mm512_store_si512(uint8_to, load_quants(tile, s, group));
}

template <bool kIsInt8, typename Tile>
void unpack(const Tile* tile, int64_t depth, UnpackedRows& to) {
  constexpr bool kHasMins = requires(const Tile& each) { each.mins; };
  int64_t at = 0;  // index of the scale
  __m512 zero_or_nan = _mm512_setzero_ps();
  for (int64_t column = 0; column < depth; column += Tile::kColumns, ++tile) {
    const Scales<Tile> scales(*tile);
    for (int s = 0; s < kScaleCount<Tile>; ++s, ++at) {
      const __m512 scale = scales.scale(s);
      zero_or_nan = _mm512_fmadd_ps(scale, _mm512_setzero_ps(), zero_or_nan);
      _mm512_store_ps(to.scales + at * kRowBlockRows, scale);
      if constexpr (kHasMins) _mm512_store_ps(to.offsets + at * kRowBlockRows, scales.min(s));
      if constexpr (kIsInt8)
        unpack_int8(*tile, s, to, at);
      else
        unpack_int16(*tile, s, to, at);
    }
  }
  _mm512_store_ps(to.zero_or_nan, zero_or_nan);
}

template <bool kIsInt8>
void unpack_part(const WeightPart& part, UnpackedRows& rows) {
  with_tile_type(part.weight.dtype, [&](auto type) {
    using Tile = typename decltype(type)::type;
    unpack<kIsInt8>(first_tile<Tile>(part), part.depth, rows);
  });
}

}  // namespace

// Bound: stores, one of 64 bytes per cycle.
void unpack_repacked_avx512(const WeightPart& part, UnpackedRows& rows) {
  unpack_part<false>(part, rows);
}

// Bound: half as many stores.
void unpack_repacked_int8_avx512(const WeightPart& part, UnpackedRows& rows) {
  unpack_part<true>(part, rows);
}

}  // namespace ridge::backends::cpu
#pragma GCC pop_options
