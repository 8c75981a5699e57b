// SPDX-License-Identifier: Apache-2.0
// Unpacks weights in repacked tiles of 16 rows to bf16 tiles, with AVX-512 and AVX-512 BF16: the
// lanes of a tile are the rows of a tile already, so nothing is transposed. gemm_amx.cc unpacks
// rows of blocks.
#include <cstdint>

#include "backends/cpu/kernels/quantized/repacked_quants_avx512-inl.h"
#include "backends/cpu/kernels/quantized/tiles-inl.h"
#include "backends/cpu/kernels/tile_gemm/tile_filling-inl.h"
#include "base/repacked_tiles.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512bf16,avx2,fma,f16c")
// GCC 12 warns about operands that the header leaves undefined on purpose.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>

namespace ridge::backends::cpu {
namespace {

// The scale and offset of a column's quants in 16 rows, applied as gemm_amx.cc does.
struct Scaling {
  __m512 scale;
  __m512 offset;
  __m512 value(__m512i quants) const {
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(quants), scale, offset);
  }
};

template <typename Tile>
inline Scaling scaling(const Scales<Tile>& scales, int s) {
  const __m512 scale = scales.scale(s);
  if constexpr (kTileAdds<Tile>) return {scale, scales.min(s)};
  return {scale, _mm512_mul_ps(scale, _mm512_set1_ps(-static_cast<float>(Tile::kOffset)))};
}

// Four columns, one byte of each lane: two pairs of columns of a tile.
inline void store_pairs(__m512i quants, const Scaling& by, uint16_t* to) {
  const __m512i byte = _mm512_set1_epi32(255);
  const __m512i interleave =
      _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                       21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const __m512 columns[4] = {by.value(_mm512_and_si512(quants, byte)),
                             by.value(_mm512_and_si512(_mm512_srli_epi32(quants, 8), byte)),
                             by.value(_mm512_and_si512(_mm512_srli_epi32(quants, 16), byte)),
                             by.value(_mm512_srli_epi32(quants, 24))};
  for (int pair = 0; pair < 2; ++pair) {
    const __m512i both = rounded(columns[2 * pair], columns[2 * pair + 1]);
    _mm512_store_si512(to + pair * kTileDepth, _mm512_permutexvar_epi16(interleave, both));
  }
}

// Makes one bf16 tile of a repacked tile, from its scale `first` on.
template <typename Tile>
inline void make_tile(const Tile& tile, const Scales<Tile>& scales, int first, uint16_t* to) {
  constexpr int kGroups = Tile::kScaleColumns / 4;
  for (int s = first; s < first + kTileDepth / Tile::kScaleColumns; ++s) {
    const Scaling by = scaling(scales, s);
#pragma GCC unroll 8
    for (int group = 0; group < kGroups; ++group, to += 2 * kTileDepth)
      store_pairs(load_quants(tile, s, group), by, to);
  }
}

template <typename Tile>
void unpack(const WeightPart& part, int64_t row_tile, WeightTiles& tiles) {
  const QuantizedMatrix& weight = part.weight;
  constexpr int kTiles = Tile::kColumns / kTileDepth, kScales = kTileDepth / Tile::kScaleColumns;
  const Tile* tile = reinterpret_cast<const Tile*>(weight.data) +
                     (part.row / kTileRows * weight.in + part.column) / Tile::kColumns;
  for (int64_t k = 0; k < tiles.depth_tiles; k += kTiles, ++tile) {
    const Scales<Tile> scales(*tile);
    for (int i = 0; i < kTiles; ++i)
      make_tile(*tile, scales, i * kScales, tiles.tile(row_tile, k + i));
  }
}

}  // namespace

static_assert(kRepackedRows == kTileRows);

// Bound: conversions, about 2.5 cycles per 32 columns of a row.
void unpack_repacked_tiles(const WeightPart& part, int64_t row_tile, WeightTiles& tiles) {
  with_tile_type(part.weight.dtype,
                 [&](auto type) { unpack<typename decltype(type)::type>(part, row_tile, tiles); });
}

}  // namespace ridge::backends::cpu
#pragma GCC pop_options
