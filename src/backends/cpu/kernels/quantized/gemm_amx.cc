// SPDX-License-Identifier: Apache-2.0
// bf16 tiles for AMX: rounds activations and unpacks weights into tiles. tiles-inl.h defines the
// order of the multiplications.
#include "backends/cpu/kernels/quantized/inner_loops.h"
#include "backends/cpu/kernels/quantized/tiles-inl.h"
#include "backends/cpu/kernels/tile_gemm/amx_tiles-inl.h"
#include "backends/cpu/kernels/tile_gemm/tile_filling-inl.h"
#include "base/error.h"
#include "base/repacked_tiles.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512bf16,avx2,fma")
// GCC 12 warns about operands that the header leaves undefined on purpose.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>

namespace ridge::backends::cpu {
namespace {

// Quants of 16 rows, with their scales and offsets.
struct RowQuants {
  alignas(64) uint8_t quants[kTileRows][kWeightTilesDepth];
  alignas(64) float scales[kTileRows][kWeightTilesDepth / 16];
  alignas(64) float offsets[kTileRows][kWeightTilesDepth / 16];
};

inline __m512 sixteen(const RowQuants& from, int64_t row, int64_t column, int64_t group) {
  const __m128i quants =
      _mm_load_si128(reinterpret_cast<const __m128i*>(from.quants[row] + column));
  return _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(quants)),
                         _mm512_set1_ps(from.scales[row][group]),
                         _mm512_set1_ps(from.offsets[row][group]));
}

template <int kGroup>
void make_tiles(const RowQuants& from, int64_t depth_tiles, uint16_t* to) {
  for (int64_t k = 0; k < depth_tiles; ++k, to += kTileElements) {
    const int64_t column = k * kTileDepth;
    __m512i rows[kTileRows];
#pragma GCC unroll 16
    for (int r = 0; r < kTileRows; ++r) {
      rows[r] = rounded(sixteen(from, r, column, column / kGroup),
                        sixteen(from, r, column + 16, (column + 16) / kGroup));
    }
    transpose_words(rows);
    store_tile(rows, to);
  }
}

void round_token(const float* x, const ActivationTiles& out, int64_t token) {
  const int64_t row = token % kTileRows * kTileDepth;
  for (int64_t k = 0; k < out.depth_tiles(); ++k, x += kTileDepth) {
    uint16_t* to = out.tile(token / kTileRows, k) + row;
    _mm512_store_si512(to, rounded(_mm512_loadu_ps(x), _mm512_loadu_ps(x + 16)));
  }
}

// Fills the rows of the last tile past the last token with zeros, so that every value of a tile is
// initialized.
void fill_up(const ActivationTiles& out) {
  for (int64_t token = out.tokens; token < out.token_tiles() * kTileRows; ++token)
    for (int64_t k = 0; k < out.depth_tiles(); ++k)
      _mm512_store_si512(out.tile(token / kTileRows, k) + token % kTileRows * kTileDepth,
                         _mm512_setzero_si512());
}

}  // namespace

void round_activations(StridedRows<const float> x, const ActivationTiles& out) {
  for_each_range(out.tokens, parts_for(4 * out.tokens * out.in), [&](Range range) {
    for (int64_t n = range.begin; n < range.end; ++n) round_token(x[n], out, n);
  });
  fill_up(out);
}

// Bound: the two shuffle ports, about 7 cycles per 32 columns of a row.
void unpack_tiles(const WeightPart& part, int64_t row_tile, WeightTiles& tiles) {
  const auto& [weight, row, column, depth] = part;
  if (is_repacked(weight.dtype)) return unpack_repacked_tiles(part, row_tile, tiles);
  RowQuants from;
  const int64_t group = quant_format(weight.dtype).group;
  for (int64_t r = 0; r < kTileRows; ++r) {
    if (row + r < weight.out) {
      unpack_quants({weight, row + r, column, depth},
                    {from.quants[r], from.scales[r], from.offsets[r]});
    } else {
      std::fill_n(from.quants[r], depth, uint8_t{0});
      std::fill_n(from.scales[r], depth / group, 0.0f);
      std::fill_n(from.offsets[r], depth / group, 0.0f);
    }
  }
  (group == 16 ? make_tiles<16> : make_tiles<32>)(from, tiles.depth_tiles, tiles.tile(row_tile, 0));
}

void quantized_gemm_tiles(std::span<const QuantizedProduct> products, const ActivationTiles& x) {
  static_assert(kGluTokens % kTokenCut == 0);
  check_blocks(products, x.in);
  AmxTiles::ask();
  const bool glu = is_glu(products);
  for_each_row_block_task(
      products, glu ? kTileRows : kWeightTilesRows, x.tokens, glu ? kGluTokens : x.tokens,
      [&](const QuantizedProduct& product, int64_t row, Range tokens) {
        const AmxTiles::Shapes shapes;
        (glu ? multiply_glu_rows<AmxTiles> : multiply_rows<AmxTiles>)(product, row, x, tokens);
      });
}

}  // namespace ridge::backends::cpu
#pragma GCC pop_options
