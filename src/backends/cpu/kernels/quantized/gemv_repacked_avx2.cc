// SPDX-License-Identifier: Apache-2.0
// The GEMV path for AVX2 with weights in repacked tiles of 16 rows: each lane of two vectors
// holds a row of W, so that a block's sums need no shuffle and its rows share every load of x.
// Quants are widened in registers and multiplied by int16 of x, or multiplied by int8, as
// gemm_avx2.cc multiplies rows that are unpacked once for many tokens, with the same bits.
// gemv_avx2.cc reads weights in the file's layout.
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "backends/cpu/kernels/quantized/gemv_repacked-inl.h"
#include "backends/cpu/kernels/quantized/repacked_quants_avx2-inl.h"
#include "base/repacked_tiles.h"

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#include <immintrin.h>

#include "backends/cpu/kernels/quantized/row_block-inl.h"

namespace ridge::backends::cpu {
namespace {

// The same as in gemv_avx2.cc, where it was measured.
inline constexpr int64_t kFetchBytes = 8192;

// The integer sums of 16 rows and so many tokens take half of the registers.
inline constexpr int64_t kMostTokens = kGemvTokensAvx2;

// Up to four of x's tokens, from `first` on, and their outputs.
struct Tokens {
  Tokens() = default;
  Tokens(const QuantizedActivations& x, int64_t first, StridedRows<float> to)
      : count(std::min<int64_t>(x.tokens - first, kMostTokens)) {
    for (int64_t t = 0; t < count; ++t) {
      quants[t] = x.int8_quants(first + t);
      scales[t] = x.scales(first + t);
      sums[t] = x.sums(first + t);
      quant_sums[t] = x.quant_sums(first + t);
      half_quant_sums[t] = x.half_quant_sums(first + t);
      row_scales[t] = x.row_scale(first + t);
      y[t] = to[first + t];
    }
  }

  int64_t count = 0;
  const void* quants[kMostTokens] = {};  // int16 or int8
  const float* scales[kMostTokens] = {};
  const float* sums[kMostTokens] = {};  // scale times the sum of a block's quants
  const int32_t* quant_sums[kMostTokens] = {};
  const int32_t* half_quant_sums[kMostTokens] = {};
  float row_scales[kMostTokens] = {};
  float* y[kMostTokens] = {};
};

inline __m256 broadcast(const float* from) { return _mm256_broadcast_ss(from); }

// Keeps the sum as written: GCC would reassociate a chain of vector additions into a tree, which
// takes more registers than there are.
inline __m256i in_order(__m256i sum) {
  asm("" : "+x"(sum));
  return sum;
}

// The integer sums of 16 rows and each token over the columns of a scale. Both halves of the rows
// share a load of x: with separate loads, GEMMs of four tokens took a third longer.
template <int kTokens>
using Dots = __m256i[2][kTokens];

// -o sum q, from which the sum of the products begins.
template <typename Tile>
inline __m256i begin(const Tokens& x, int t, int64_t part) {
  const int32_t* sums =
      Tile::kScaleColumns == kActivationBlock ? x.quant_sums[t] : x.half_quant_sums[t];
  return _mm256_set1_epi32(-Tile::kOffset * sums[part]);
}

template <typename Tile>
struct Int16 {
  static constexpr int64_t kColumns = Tile::kScaleColumns;
  static constexpr bool kBeginsBelow = Tile::kOffset != 0;

  template <int kTokens>
  static void set_dots(const Tile& tile,
                       int s,
                       const Tokens& x,
                       int64_t part,
                       Dots<kTokens>& dots) {
    if constexpr (kBeginsBelow)
      for (int t = 0; t < kTokens; ++t) dots[0][t] = dots[1][t] = begin<Tile>(x, t, part);
#pragma GCC unroll 8
    for (int group = 0; group < kColumns / 4; ++group) {
      const bool begins = !kBeginsBelow && group == 0;
      const ColumnPairs w[2] = {ColumnPairs(load_quants(tile, s, group, 0)),
                                ColumnPairs(load_quants(tile, s, group, 1))};
#pragma GCC unroll 4
      for (int t = 0; t < kTokens; ++t) {
        const auto* pairs = static_cast<const int32_t*>(x.quants[t]) + part * kColumns / 2;
        const __m256i even = _mm256_set1_epi32(pairs[2 * group]),
                      odd = _mm256_set1_epi32(pairs[2 * group + 1]);
#pragma GCC unroll 2
        for (int rows = 0; rows < 2; ++rows) {
          __m256i& dot = dots[rows][t];
          const __m256i first = _mm256_madd_epi16(w[rows].even, even);
          dot = begins ? first : in_order(_mm256_add_epi32(dot, first));
          dot = in_order(_mm256_add_epi32(dot, _mm256_madd_epi16(w[rows].odd, odd)));
        }
      }
    }
  }
};

template <typename Tile>
struct Int8 {
  static constexpr int64_t kColumns = Tile::kScaleColumns;
  // The sums of so many groups of four columns fit in 16 bits.
  static constexpr int kMostQuant = std::is_same_v<Tile, TileQ6_K>   ? 63
                                    : std::is_same_v<Tile, TileQ5_0> ? 31
                                                                     : 15;
  static constexpr int kRun = std::min<int>(32767 / (kMostQuant * 127 * 2), kColumns / 4);

  template <int kTokens>
  static void set_dots(const Tile& tile,
                       int s,
                       const Tokens& x,
                       int64_t part,
                       Dots<kTokens>& dots) {
#pragma GCC unroll 8
    for (int first = 0; first < kColumns / 4; first += kRun) {
      __m256i sums[2][kTokens];
#pragma GCC unroll 8
      for (int group = first; group < first + kRun; ++group) {
        const __m256i w[2] = {load_quants(tile, s, group, 0), load_quants(tile, s, group, 1)};
#pragma GCC unroll 4
        for (int t = 0; t < kTokens; ++t) {
          const auto* fours = static_cast<const int32_t*>(x.quants[t]) + part * kColumns / 4;
          const __m256i four = _mm256_set1_epi32(fours[group]);
#pragma GCC unroll 2
          for (int rows = 0; rows < 2; ++rows) {
            const __m256i products = _mm256_maddubs_epi16(w[rows], four);
            __m256i& sum = sums[rows][t];
            sum = group == first ? products : in_order(_mm256_add_epi16(sum, products));
          }
        }
      }
#pragma GCC unroll 4
      for (int t = 0; t < kTokens; ++t)
        for (int rows = 0; rows < 2; ++rows) {
          const __m256i wide = _mm256_madd_epi16(sums[rows][t], _mm256_set1_epi16(1));
          dots[rows][t] = first == 0 ? wide : _mm256_add_epi32(dots[rows][t], wide);
        }
    }
    if constexpr (Tile::kOffset != 0)
      for (int t = 0; t < kTokens; ++t) {
        const __m256i start = begin<Tile>(x, t, part);
        for (int rows = 0; rows < 2; ++rows) dots[rows][t] = _mm256_add_epi32(dots[rows][t], start);
      }
  }
};

// The sums of scaled groups, and what is added to those of all tokens: 0, or NaN in rows of which a
// scale is not finite (unpack.h).
template <int kTokens>
struct Totals {
  __m256 sums[2][kTokens];
  __m256 zero_or_nan[2];
};

// Sum s_w s_x sum (c - o) q + m_w s_x sum q over the columns that share a scale, where o is the
// offset of the quants c, and q are the quants of x.
template <typename P, template <typename> typename Form>
struct RepackedForm {
  using Tile = P;
  using Inputs = Tokens;
  static constexpr int64_t kMost = kMostTokens;
  using TileScales = Scales<Tile>;
  static constexpr int64_t kFetchedAhead = kFetchBytes;
  static constexpr bool kHasMins = kTileAdds<Tile>;
  static constexpr int64_t kColumns = Tile::kScaleColumns;

  template <int kTokens>
  static void add_part(const Tile& tile,
                       const Scales<Tile>& scales,
                       int s,
                       const Tokens& x,
                       int64_t part,
                       Totals<kTokens>& totals) {
    Dots<kTokens> dots;
    Form<Tile>::template set_dots<kTokens>(tile, s, x, part, dots);
#pragma GCC unroll 2
    for (int rows = 0; rows < 2; ++rows) {
      const __m256 w_scale = scales.scale(s, rows);
      const __m256i scale =
          _mm256_sub_epi32(_mm256_castps_si256(w_scale), _mm256_set1_epi32(kOneBits));
      __m256& zero_or_nan = totals.zero_or_nan[rows];
      zero_or_nan = _mm256_fmadd_ps(w_scale, _mm256_setzero_ps(), zero_or_nan);
#pragma GCC unroll 4
      for (int t = 0; t < kTokens; ++t) {
        const __m256i power =
            _mm256_castps_si256(broadcast(x.scales[t] + part * kColumns / kActivationBlock));
        const __m256 both = _mm256_castsi256_ps(_mm256_add_epi32(scale, power));
        __m256& total = totals.sums[rows][t];
        total = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots[rows][t]), both, total);
        if constexpr (kHasMins)
          total = _mm256_fmadd_ps(scales.min(s, rows), broadcast(x.sums[t] + part), total);
      }
    }
  }

  // Totals are added to y after each kRowBlockDepth columns, as the GEMM path does.
  template <int kTokens>
  static void multiply(const RowBlock<Tile>& row_block, const Tokens& x) {
    constexpr int64_t kAcross = kRowBlockDepth / Tile::kColumns;
    RowBlock<Tile> segment = row_block;
    segment.is_streamed = row_block.is_streamed && row_block.across <= kAcross;
    for (int64_t begin = 0; begin < row_block.across; begin += kAcross) {
      segment.tiles = row_block.tiles + begin;
      segment.across = std::min(kAcross, row_block.across - begin);
      segment.accumulate = row_block.accumulate || begin > 0;
      multiply_segment<kTokens>(segment, x, begin * kScaleCount<Tile>);
    }
  }

  // `first` is the index of the segment's first scale in the row.
  template <int kTokens>
  static void multiply_segment(const RowBlock<Tile>& row_block, const Tokens& x, int64_t first) {
    Totals<kTokens> totals;
    for (int rows = 0; rows < 2; ++rows) {
      totals.zero_or_nan[rows] = _mm256_setzero_ps();
      for (__m256& total : totals.sums[rows]) total = _mm256_setzero_ps();
    }
    for_each_scale<RepackedForm>(
        row_block, [&](const Tile& tile, const auto& scales, int s, int, int64_t part) {
          add_part(tile, scales, s, x, first + part, totals);
        });
    for (int t = 0; t < kTokens; ++t)
      for (int rows = 0; rows < 2; ++rows) {
        float* y = x.y[t] + row_block.row + 8 * rows;
        __m256 sum = _mm256_mul_ps(_mm256_add_ps(totals.sums[rows][t], totals.zero_or_nan[rows]),
                                   _mm256_set1_ps(x.row_scales[t]));
        if (row_block.accumulate) sum = _mm256_add_ps(_mm256_loadu_ps(y), sum);
        row_block.is_streamed ? _mm256_stream_ps(y, sum) : _mm256_storeu_ps(y, sum);
      }
  }

  static auto product_of(const Tokens& x, const QuantizedActivations&) {
    constexpr void (*kProducts[])(const RowBlock<Tile>&, const Tokens&) = {
        multiply<1>, multiply<2>, multiply<3>, multiply<4>};
    return kProducts[x.count - 1];
  }
};

template <typename Tile>
using Int16Form = RepackedForm<Tile, Int16>;
template <typename Tile>
using Int8Form = RepackedForm<Tile, Int8>;

}  // namespace

// Bound: memory for one token. Per 32 columns of 8 rows: 24 instructions to unpack nibbles to
// int16, and 16 multiplications, 15 additions and 3 to 4 instructions to scale for each token;
// about three run per cycle. In int8, 2 to 6 instructions to unpack, and 8 multiplications, 7
// additions and 4 instructions to widen and scale.
void gemv_repacked_avx2(const RowsProduct& call) {
  RIDGE_CHECK(call.x.is_int16() || quant_format(call.weight.dtype).most <= kMostInt8Quant,
              "sums of int8 and quants of {} do not fit in 16 bits", name(call.weight.dtype));
  call.x.is_int16() ? multiply_repacked<Int16Form>(call) : multiply_repacked<Int8Form>(call);
}

}  // namespace ridge::backends::cpu
#pragma GCC pop_options
