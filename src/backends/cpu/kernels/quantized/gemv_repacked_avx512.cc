// SPDX-License-Identifier: Apache-2.0
// The GEMV path for AVX-512 with VNNI, with weights in repacked tiles of 16 rows: each lane
// holds a row of W. gemv_avx2.cc reads weights in the file's layout.
#include <array>
#include <cstdint>
#include <utility>

#include "backends/cpu/kernels/quantized/gemv_repacked-inl.h"
#include "backends/cpu/kernels/quantized/repacked_quants_avx512-inl.h"
#include "base/repacked_tiles.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512vnni,avx2,fma,f16c")
// GCC 12 warns about operands that the header leaves undefined on purpose.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include "backends/cpu/kernels/quantized/row_block-inl.h"

namespace ridge::backends::cpu {
namespace {

// How far ahead of its reads a stream of tiles is prefetched, into L2. Two cores of an Intel Xeon
// with 178 MB of Q8_0: without prefetching 24 GB/s, 4 KiB ahead 35, 8 KiB 41, 16 KiB 44.
inline constexpr int64_t kFetchBytes = 16384;

inline __m512i four_quants(const int8_t* x, int group) {
  return _mm512_set1_epi32(reinterpret_cast<const int32_t*>(x)[group]);
}

// For each vector: its start plus the sum of quants times activations over the columns of scale s.
template <int kVectors, typename Tile>
inline void add_dots(const Tile& tile, int s, const int8_t* const* x, __m512i* dots) {
#pragma GCC unroll 8
  for (int group = 0; group < Tile::kScaleColumns / 4; ++group) {
    const __m512i w = load_quants(tile, s, group);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v)
      dots[v] = _mm512_dpbusd_epi32(dots[v], w, four_quants(x[v], group));
  }
}

// Sum s_w (s_x sum (c c_x) - o s_x sum c_x) + m_w s_x sum c_x over the columns that share a scale,
// where o is the offset of the quants. Even and odd scales have separate totals, so that an
// addition need not wait for the one before it.
template <typename P>
struct RepackedForm {
  using Tile = P;
  using Inputs = Vectors;
  static constexpr int64_t kMost = Vectors::kMost;
  using TileScales = Scales<Tile>;
  static constexpr int64_t kFetchedAhead = kFetchBytes;
  static constexpr bool kHasMins = kTileAdds<Tile>;
  static constexpr int64_t kColumns = Tile::kScaleColumns;

  static __m512 sum_of(const Vectors& x, int v, int64_t part) {
    return _mm512_set1_ps(x.sums_of(kColumns, v)[part]);
  }

  // For a token in two parts, s_x sum (c c_x) - o s_x sum c_x over both; `part` is the index of the
  // kColumns columns in the row.
  static __m512 unscaled(const __m512i* dots, const Vectors& x, int v, int64_t part) {
    const auto dot = [&](int p) { return _mm512_cvtepi32_ps(dots[v + p]); };
    const auto scale = [&](int p) {
      return _mm512_set1_ps(x.scales[v + p][part * kColumns / kActivationBlock]);
    };
    __m512 first;
    if constexpr (Tile::kOffset == 0) {
      first = _mm512_mul_ps(dot(0), scale(0));
    } else {
      const __m512 quant_offset = _mm512_set1_ps(Tile::kOffset);
      const __m512 offset = _mm512_fmadd_ps(sum_of(x, v + 1, part), quant_offset,
                                            _mm512_mul_ps(sum_of(x, v, part), quant_offset));
      first = _mm512_fmsub_ps(dot(0), scale(0), offset);
    }
    return _mm512_fmadd_ps(dot(1), scale(1), first);
  }

  template <int kTokens>
  static void add_two_parts(const Tile& tile,
                            const Scales<Tile>& scales,
                            int s,
                            const Vectors& x,
                            int64_t part,
                            __m512 (&totals)[kTokens]) {
    constexpr int kVectors = 2 * kTokens;
    const int8_t* quants[kVectors];
    __m512i dots[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      quants[v] = x.quants[v] + part * kColumns;
      dots[v] = _mm512_setzero_si512();
    }
    add_dots<kVectors>(tile, s, quants, dots);
    const __m512 scale = scales.scale(s);
#pragma GCC unroll 4
    for (int t = 0; t < kTokens; ++t) {
      totals[t] = _mm512_fmadd_ps(scale, unscaled(dots, x, 2 * t, part), totals[t]);
      if constexpr (kHasMins)
        for (int v = 2 * t; v < 2 * t + 2; ++v)
          totals[t] = _mm512_fmadd_ps(scales.min(s), sum_of(x, v, part), totals[t]);
    }
  }

  // -o sum c_x, from which the sum of the products begins.
  static __m512i begin(const Vectors& x, int v, int64_t part) {
    if constexpr (Tile::kOffset == 0) return _mm512_setzero_si512();
    return _mm512_set1_epi32(-Tile::kOffset * x.quant_sums_of(kColumns, v)[part]);
  }

  // x's scales are powers of two. `zero_or_nan` is as in unpack.h.
  template <int kTokens>
  static void add_one_part(const Tile& tile,
                           const Scales<Tile>& scales,
                           int s,
                           const Vectors& x,
                           int64_t part,
                           __m512 (&totals)[kTokens],
                           __m512& zero_or_nan) {
    const int8_t* quants[kTokens];
    __m512i dots[kTokens];
    for (int t = 0; t < kTokens; ++t) {
      quants[t] = x.quants[t] + part * kColumns;
      dots[t] = begin(x, t, part);
    }
    add_dots<kTokens>(tile, s, quants, dots);
    const __m512 scale = scales.scale(s);
    zero_or_nan = _mm512_fmadd_ps(scale, _mm512_setzero_ps(), zero_or_nan);
    const __m512i less_one =
        _mm512_sub_epi32(_mm512_castps_si512(scale), _mm512_set1_epi32(kOneBits));
    __m512 min;
    if constexpr (kHasMins) min = scales.min(s);
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      const __m512 power = _mm512_set1_ps(x.scales[t][part * kColumns / kActivationBlock]);
      const __m512i both = _mm512_add_epi32(less_one, _mm512_castps_si512(power));
      totals[t] =
          _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[t]), _mm512_castsi512_ps(both), totals[t]);
      if constexpr (kHasMins) totals[t] = _mm512_fmadd_ps(min, sum_of(x, t, part), totals[t]);
    }
  }

  template <int kTokens, int kParts>
  static void multiply(const RowBlock<Tile>& row_block, const Vectors& x) {
    __m512 totals[2][kTokens];
    for (auto& half : totals)
      for (__m512& total : half) total = _mm512_setzero_ps();
    __m512 zero_or_nan = _mm512_setzero_ps();
    for_each_scale<RepackedForm>(
        row_block, [&](const Tile& tile, const auto& scales, int s, int odd, int64_t part) {
          if constexpr (kParts == 2)
            add_two_parts<kTokens>(tile, scales, s, x, part, totals[odd]);
          else
            add_one_part<kTokens>(tile, scales, s, x, part, totals[odd], zero_or_nan);
        });
    for (int t = 0; t < kTokens; ++t) {
      float* y = x.y[t] + row_block.row;
      const __m512 sum = _mm512_add_ps(_mm512_add_ps(totals[0][t], totals[1][t]), zero_or_nan);
      const __m512 row_scale = _mm512_set1_ps(x.row_scales[t]);
      if (row_block.is_streamed) {
        _mm512_stream_ps(y, _mm512_mul_ps(sum, row_scale));
        continue;
      }
      const __m512 before = row_block.accumulate ? _mm512_loadu_ps(y) : _mm512_setzero_ps();
      _mm512_storeu_ps(y, _mm512_fmadd_ps(sum, row_scale, before));
    }
  }

  using Product = void (*)(const RowBlock<Tile>& row_block, const Vectors& x);
  template <int kParts, int... kLess>
  static constexpr std::array<Product, sizeof...(kLess)> products(
      std::integer_sequence<int, kLess...>) {
    return {multiply<kLess + 1, kParts>...};
  }

  static Product product_of(const Vectors& vectors, const QuantizedActivations& x) {
    static constexpr auto kOfTwoParts = products<2>(std::make_integer_sequence<int, kMost / 2>()),
                          kOfOnePart = products<1>(std::make_integer_sequence<int, kMost>());
    const auto tokens = static_cast<size_t>(vectors.count / x.parts());
    return x.parts() == 2 ? kOfTwoParts[tokens - 1] : kOfOnePart[tokens - 1];
  }
};

}  // namespace

// Bound: memory for one token. 16 rows of 64 columns take 70 512-bit instructions for 576 bytes
// (Q4_0) or 640 (Q4_1), 108 for 704 (Q5_0), 62 for 1088 (Q8_0), 80 for 576 (Q4_K) and 128 for 840
// (Q6_K); in two parts they take 110, 148, 102, 120 and 176. Two run per cycle.
void gemv_repacked_avx512(const RowsProduct& call) { multiply_repacked<RepackedForm>(call); }

}  // namespace ridge::backends::cpu
#pragma GCC pop_options
