// SPDX-License-Identifier: Apache-2.0
// GEMMs of few tokens for AVX2 with weights in panels of 16 rows: each lane of two vectors holds a
// row of W, so that a block's sums need no shuffle and its rows share every load of x. Codes are
// widened in registers and multiplied by words of x, as gemm_avx2.cc multiplies a panel that is
// unpacked for many tokens, with the same bits. gemv_avx2.cc reads weights in the file's layout.
#include <cstdint>

#include "backends/cpu/kernels/quantized/gemv_panels-inl.h"
#include "backends/cpu/kernels/quantized/panel_codes_avx2-inl.h"
#include "base/row_panels.h"

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#include <immintrin.h>

#include "backends/cpu/kernels/quantized/panel_walk-inl.h"

namespace ridge::backends::cpu {
namespace {

// The same as in gemv_avx2.cc, where it was measured.
inline constexpr int64_t kFetchBytes = 8192;

// The integer sums of 16 rows and so many tokens take half of the registers.
inline constexpr int64_t kMostTokens = 4;

// Up to four of x's tokens, from `first` on, and their outputs.
struct Tokens {
  Tokens() = default;
  Tokens(const QuantizedActivations& x, int64_t first, StridedRows<float> to)
      : count(std::min<int64_t>(x.tokens - first, kMostTokens)) {
    for (int64_t t = 0; t < count; ++t) {
      words[t] = x.words(first + t);
      scales[t] = x.scales(first + t);
      sums[t] = x.sums(first + t);
      code_sums[t] = x.code_sums(first + t);
      y[t] = to[first + t];
    }
  }

  int64_t count = 0;
  const int16_t* words[kMostTokens] = {};
  const float* scales[kMostTokens] = {};
  const float* sums[kMostTokens] = {};  // scale times the sum of a block's codes
  const int32_t* code_sums[kMostTokens] = {};
  float* y[kMostTokens] = {};
};

inline __m256 broadcast(const float* from) { return _mm256_broadcast_ss(from); }

// Keeps the sum as written: GCC would reassociate a chain of vector additions into a tree, which
// takes more registers than there are.
inline __m256i in_order(__m256i sum) {
  asm("" : "+x"(sum));
  return sum;
}

// Sum s_w s_x sum (c - o) q + m_w s_x sum q over the columns that share a scale, where o is the
// offset of the codes c, and q are the codes of x.
template <typename P>
struct PanelForm {
  using Panel = P;
  using Inputs = Tokens;
  static constexpr int64_t kMost = kMostTokens;
  using PanelScales = Scales<Panel>;
  static constexpr int64_t kFetchedAhead = kFetchBytes;
  static constexpr bool kHasMins = requires(const Panel& panel) { panel.mins; };
  static constexpr int64_t kColumns = Panel::kScaleColumns;

  // -o sum q, from which the sum of the products starts.
  static __m256i start(const Tokens& x, int t, int64_t part) {
    const int32_t* sums = x.code_sums[t] + part * kColumns / kCodeSumColumns;
    int32_t sum = sums[0];
    if constexpr (kColumns == 2 * kCodeSumColumns) sum += sums[1];
    return _mm256_set1_epi32(-Panel::kOffset * sum);
  }

  // The exact integer sums for all rows and each token. Both halves of the rows share a load of x:
  // with separate loads, GEMMs of four tokens took a third longer.
  template <int kTokens>
  static void set_dots(const Panel& panel,
                       int s,
                       const Tokens& x,
                       int64_t part,
                       __m256i (&dots)[2][kTokens]) {
    if constexpr (Panel::kOffset != 0)
      for (int t = 0; t < kTokens; ++t) dots[0][t] = dots[1][t] = start(x, t, part);
#pragma GCC unroll 8
    for (int group = 0; group < kColumns / 4; ++group) {
      const bool begins = Panel::kOffset == 0 && group == 0;
      const ColumnPairs w[2] = {ColumnPairs(codes(panel, s, group, 0)),
                                ColumnPairs(codes(panel, s, group, 1))};
#pragma GCC unroll 4
      for (int t = 0; t < kTokens; ++t) {
        const auto* pairs = reinterpret_cast<const int32_t*>(x.words[t] + part * kColumns);
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

  template <int kTokens>
  static void add_part(const Panel& panel,
                       const Scales<Panel>& scales,
                       int s,
                       const Tokens& x,
                       int64_t part,
                       __m256 (&totals)[2][kTokens]) {
    __m256i dots[2][kTokens];
    set_dots<kTokens>(panel, s, x, part, dots);
#pragma GCC unroll 2
    for (int rows = 0; rows < 2; ++rows) {
      const __m256 scale = scales.scale(s, rows);
#pragma GCC unroll 4
      for (int t = 0; t < kTokens; ++t) {
        const __m256 both =
            _mm256_mul_ps(scale, broadcast(x.scales[t] + part * kColumns / kActivationBlock));
        __m256& total = totals[rows][t];
        total = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots[rows][t]), both, total);
        if constexpr (kHasMins)
          total = _mm256_fmadd_ps(scales.min(s, rows), broadcast(x.sums[t] + part), total);
      }
    }
  }

  // Totals are added to y after each kPanelDepth columns, as the GEMM of many tokens does.
  template <int kTokens>
  static void multiply(const Strip<Panel>& strip, const Tokens& x) {
    constexpr int64_t kAcross = kPanelDepth / Panel::kColumns;
    Strip<Panel> segment = strip;
    for (int64_t begin = 0; begin < strip.across; begin += kAcross) {
      segment.panels = strip.panels + begin;
      segment.across = std::min(kAcross, strip.across - begin);
      segment.accumulate = strip.accumulate || begin > 0;
      multiply_segment<kTokens>(segment, x, begin * kScaleCount<Panel>);
    }
  }

  // `first` is the index of the segment's first scale in the row.
  template <int kTokens>
  static void multiply_segment(const Strip<Panel>& strip, const Tokens& x, int64_t first) {
    __m256 totals[2][kTokens];
    for (auto& rows : totals)
      for (__m256& total : rows) total = _mm256_setzero_ps();
    for_each_scale<PanelForm>(
        strip, [&](const Panel& panel, const auto& scales, int s, int, int64_t part) {
          add_part(panel, scales, s, x, first + part, totals);
        });
    for (int t = 0; t < kTokens; ++t)
      for (int rows = 0; rows < 2; ++rows) {
        float* y = x.y[t] + strip.row + 8 * rows;
        __m256 sum = totals[rows][t];
        if (strip.accumulate) sum = _mm256_add_ps(_mm256_loadu_ps(y), sum);
        _mm256_storeu_ps(y, sum);
      }
  }

  static auto product_of(const Tokens& x, const QuantizedActivations&) {
    constexpr void (*kProducts[])(const Strip<Panel>&, const Tokens&) = {multiply<1>, multiply<2>,
                                                                         multiply<3>, multiply<4>};
    return kProducts[x.count - 1];
  }
};

}  // namespace

// Bound: memory for one token. Per 32 columns of 8 rows: 24 instructions to unpack nibbles to
// words, and 16 multiplications, 15 additions and 3 to 4 instructions to scale for each token;
// about three run per cycle.
void gemv_panels_avx2(const RowsProduct& call) { multiply_panels<PanelForm>(call); }

}  // namespace ridge::backends::cpu
#pragma GCC pop_options
