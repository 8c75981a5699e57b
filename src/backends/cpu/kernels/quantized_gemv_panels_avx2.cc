// SPDX-License-Identifier: Apache-2.0
// Products of few tokens with weights in panels of 16 rows for AVX2: a row of W in each lane of two
// vectors, so that a block's sums need no shuffle and its rows share every load of x. Weights as a
// file has them: quantized_gemv_avx2.cc.
#include <cstdint>
#include <type_traits>

#include "backends/cpu/kernels/quantized_gemv_panels-inl.h"
#include "base/row_panels.h"

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#include <immintrin.h>

namespace ridge::backends::cpu {
namespace {

// As quantized_gemv_avx2.cc's, measured there.
inline constexpr int64_t kFetchBytes = 8192;

// Rows 0..7 or 8..15 of a panel.
inline __m256i load(const uint8_t (&group)[16][4], int rows) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(group[8 * rows]));
}
inline __m256 floats_of_halves(const uint16_t* halves) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(halves)));
}
inline __m256i four_codes(const int8_t* x, int group) {
  return _mm256_set1_epi32(reinterpret_cast<const int32_t*>(x)[group]);
}
inline __m256 broadcast(const float* from) { return _mm256_broadcast_ss(from); }

// The sum as written: GCC would reassociate a chain of vector additions into a tree, which takes
// more registers than there are.
inline __m256i in_order(__m256i sum) {
  asm("" : "+x"(sum));
  return sum;
}

inline __m256i pair_sums(__m256i pairs) { return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)); }

// Bit `group` of each byte moved to bit 4.
inline __m256i fifth_bit(__m256i bits, int group) {
  const __m256i moved =
      group < 4 ? _mm256_slli_epi16(bits, 4 - group) : _mm256_srli_epi16(bits, group - 4);
  return _mm256_and_si256(moved, _mm256_set1_epi8(16));
}

// A block's sums of codes times each vector's, of eight rows. A pair of products of 4 bits is at
// most 2 * 15 * 127, of 5 bits 2 * 31 * 127, so a row's eight or its first and last four fit in 16
// bits.
template <int kVectors, typename Panel>
inline void set_dots(const Panel& panel,
                     int half,
                     int rows,
                     const int8_t* const* x,
                     __m256i* dots) {
  constexpr bool kFiveBits = requires { panel.high_bits; };
  const __m256i mask = _mm256_set1_epi8(15);
  __m256i bits = mask;
  if constexpr (kFiveBits) bits = load(panel.high_bits[half], rows);
  __m256i pairs[kVectors];
#pragma GCC unroll 4
  for (int group = 0; group < 4; ++group) {
    const __m256i both = load(panel.quants[half][group], rows);
    __m256i low = _mm256_and_si256(both, mask);
    __m256i high = _mm256_and_si256(_mm256_srli_epi16(both, 4), mask);
    if constexpr (kFiveBits) {
      low = _mm256_or_si256(low, fifth_bit(bits, group));
      high = _mm256_or_si256(high, fifth_bit(bits, 4 + group));
    }
    const bool begins = group == 0 || (kFiveBits && group == 2);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const __m256i a = _mm256_maddubs_epi16(low, four_codes(x[v], group));
      const __m256i b = _mm256_maddubs_epi16(high, four_codes(x[v], 4 + group));
      if (kFiveBits && group == 2) dots[v] = pair_sums(pairs[v]);
      pairs[v] = begins ? a : in_order(_mm256_add_epi16(pairs[v], a));
      pairs[v] = in_order(_mm256_add_epi16(pairs[v], b));
    }
  }
  for (int v = 0; v < kVectors; ++v)
    dots[v] = kFiveBits ? _mm256_add_epi32(dots[v], pair_sums(pairs[v])) : pair_sums(pairs[v]);
}

// Codes of 8 bits would overflow 16: |w| times x with w's sign, widened at once, at most 2 * 128 *
// 127. Flipping the top bit undoes what codes are above their numbers.
template <int kVectors>
inline void set_dots(const PanelQ8_0& panel,
                     int half,
                     int rows,
                     const int8_t* const* x,
                     __m256i* dots) {
#pragma GCC unroll 8
  for (int group = 0; group < 8; ++group) {
    const __m256i w =
        _mm256_xor_si256(load(panel.quants[half][group], rows), _mm256_set1_epi8(-128));
    const __m256i magnitude = _mm256_abs_epi8(w);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const __m256i four = _mm256_sign_epi8(four_codes(x[v], group), w);
      const __m256i dot = pair_sums(_mm256_maddubs_epi16(magnitude, four));
      dots[v] = group == 0 ? dot : in_order(_mm256_add_epi32(dots[v], dot));
    }
  }
}

// Sum s_w (s_x sum (c c_x) - o s_x sum c_x) + m_w s_x sum c_x over the blocks, o what codes are
// above their numbers.
template <typename P>
struct PanelForm {
  using Panel = P;
  static constexpr int kOffset = std::is_same_v<Panel, PanelQ8_0> ? 0 : Panel::kOffset;

  // Of kParts vectors of one token, from v on.
  template <int kParts>
  static __m256 added(const Panel& panel,
                      int half,
                      int rows,
                      const __m256i* dots,
                      const Vectors& x,
                      int v,
                      int64_t block,
                      __m256 total) {
    __m256 dot = _mm256_mul_ps(_mm256_cvtepi32_ps(dots[v]), broadcast(x.scales[v] + block));
    __m256 sum = broadcast(x.sums[v] + block);
    if constexpr (kParts == 2) {
      dot =
          _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots[v + 1]), broadcast(x.scales[v + 1] + block), dot);
      sum = _mm256_add_ps(sum, broadcast(x.sums[v + 1] + block));
    }
    if constexpr (kOffset != 0) dot = _mm256_fnmadd_ps(sum, _mm256_set1_ps(kOffset), dot);
    total = _mm256_fmadd_ps(floats_of_halves(panel.scales[half] + 8 * rows), dot, total);
    if constexpr (requires { panel.mins; })
      total = _mm256_fmadd_ps(floats_of_halves(panel.mins[half] + 8 * rows), sum, total);
    return total;
  }

  template <int kTokens, int kParts>
  static void multiply(const Strip<Panel>& strip, const Vectors& x) {
    constexpr int kVectors = kTokens * kParts;
    __m256 totals[2][kTokens];
    for (auto& rows : totals)
      for (__m256& total : rows) total = _mm256_setzero_ps();
    for (int64_t p = 0; p < strip.across; ++p) {
      const Panel& panel = strip.panels[p];
      fetch_after<kFetchBytes>(&panel, strip.path);
      for (int half = 0; half < 2; ++half) {
        const int64_t block = 2 * p + half;
        const int8_t* codes[kVectors];
        for (int v = 0; v < kVectors; ++v) codes[v] = x.codes[v] + block * kActivationBlock;
#pragma GCC unroll 2
        for (int rows = 0; rows < 2; ++rows) {
          __m256i dots[kVectors];
          set_dots<kVectors>(panel, half, rows, codes, dots);
#pragma GCC unroll 4
          for (int t = 0; t < kTokens; ++t)
            totals[rows][t] =
                added<kParts>(panel, half, rows, dots, x, t * kParts, block, totals[rows][t]);
        }
      }
    }
    for (int t = 0; t < kTokens; ++t)
      for (int rows = 0; rows < 2; ++rows) {
        float* y = x.y[t] + strip.row + 8 * rows;
        __m256 sum = totals[rows][t];
        if (strip.accumulate) sum = _mm256_add_ps(_mm256_loadu_ps(y), sum);
        _mm256_storeu_ps(y, sum);
      }
  }
};

}  // namespace

// Bound: memory for one token. A block of 8 rows takes about 37 vector instructions for 144 (Q4_0)
// or 160 bytes (Q4_1), 64 for 176 (Q5_0), 53 for 272 (Q8_0, in two parts 90), some three a cycle.
void gemv_panels_avx2(const QuantizedMatrix& weight,
                      const RowStream& stream,
                      const QuantizedActivations& x,
                      Rows<float> y,
                      bool accumulate) {
  with_panel(weight.dtype, [&](auto type) {
    multiply_strips<PanelForm<typename decltype(type)::type>>(weight, stream, x, y, accumulate);
  });
}

}  // namespace ridge::backends::cpu
#pragma GCC pop_options
