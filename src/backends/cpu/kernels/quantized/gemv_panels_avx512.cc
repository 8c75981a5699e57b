// SPDX-License-Identifier: Apache-2.0
// GEMMs of few tokens for AVX-512 with VNNI, with weights in panels of 16 rows: each lane holds a
// row of W. gemv_avx2.cc reads weights in the file's layout.
#include <cstdint>

#include "backends/cpu/kernels/quantized/gemv_panels-inl.h"
#include "backends/cpu/kernels/quantized/panel_codes_avx512-inl.h"
#include "base/row_panels.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512vnni,avx2,fma,f16c")
// GCC 12 warns about operands that the header leaves undefined on purpose.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include "backends/cpu/kernels/quantized/panel_walk-inl.h"

namespace ridge::backends::cpu {
namespace {

// How far ahead of its reads a stream of panels is prefetched, into L2. Two cores of an Intel Xeon
// with 178 MB of Q8_0: without prefetching 24 GB/s, 4 KiB ahead 35, 8 KiB 41, 16 KiB 44.
inline constexpr int64_t kFetchBytes = 16384;

inline __m512i four_codes(const int8_t* x, int group) {
  return _mm512_set1_epi32(reinterpret_cast<const int32_t*>(x)[group]);
}

// For each vector: the sum of codes times activations over the columns of scale s.
template <int kVectors, typename Panel>
inline void set_dots(const Panel& panel, int s, const int8_t* const* x, __m512i* dots) {
  for (int v = 0; v < kVectors; ++v) dots[v] = _mm512_setzero_si512();
#pragma GCC unroll 8
  for (int group = 0; group < Panel::kScaleColumns / 4; ++group) {
    const __m512i w = codes(panel, s, group);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      dots[v] = _mm512_dpbusd_epi32(dots[v], w, four_codes(x[v], group));
  }
}

// Sum s_w (s_x sum (c c_x) - o s_x sum c_x) + m_w s_x sum c_x over the columns that share a scale,
// where o is the offset of the codes. Even and odd scales have separate totals, so that an addition
// need not wait for the one before it.
template <typename P>
struct PanelForm {
  using Panel = P;
  using Inputs = Vectors;
  static constexpr int64_t kMost = Vectors::kMost;
  using PanelScales = Scales<Panel>;
  static constexpr int64_t kFetchedAhead = kFetchBytes;
  static constexpr bool kHasMins = requires(const Panel& panel) { panel.mins; };
  static constexpr int64_t kColumns = Panel::kScaleColumns;

  // The sum of s_x sum (c c_x) - o s_x sum c_x over kParts vectors of one token, from v on; `part`
  // is the index of the kColumns columns in the row.
  template <int kParts>
  static __m512 unscaled(const __m512i* dots, const Vectors& x, int v, int64_t part) {
    const auto dot = [&](int p) { return _mm512_cvtepi32_ps(dots[v + p]); };
    const auto scale = [&](int p) {
      return _mm512_set1_ps(x.scales[v + p][part * kColumns / kActivationBlock]);
    };
    const auto sum = [&](int p) { return _mm512_set1_ps(x.sums_of(kColumns, v + p)[part]); };
    __m512 first;
    if constexpr (Panel::kOffset == 0) {
      first = _mm512_mul_ps(dot(0), scale(0));
    } else {
      const __m512 code_offset = _mm512_set1_ps(Panel::kOffset);
      __m512 offset = _mm512_mul_ps(sum(0), code_offset);
      if constexpr (kParts == 2) offset = _mm512_fmadd_ps(sum(1), code_offset, offset);
      first = _mm512_fmsub_ps(dot(0), scale(0), offset);
    }
    if constexpr (kParts == 2) return _mm512_fmadd_ps(dot(1), scale(1), first);
    return first;
  }

  template <int kTokens, int kParts>
  static void add_part(const Panel& panel,
                       const Scales<Panel>& scales,
                       int s,
                       const Vectors& x,
                       int64_t part,
                       __m512 (&totals)[kTokens]) {
    constexpr int kVectors = kTokens * kParts;
    const int8_t* codes[kVectors];
    __m512i dots[kVectors];
    for (int v = 0; v < kVectors; ++v) codes[v] = x.codes[v] + part * kColumns;
    set_dots<kVectors>(panel, s, codes, dots);
    const __m512 scale = scales.scale(s);
#pragma GCC unroll 4
    for (int t = 0; t < kTokens; ++t) {
      totals[t] = _mm512_fmadd_ps(scale, unscaled<kParts>(dots, x, t * kParts, part), totals[t]);
      if constexpr (kHasMins)
        for (int v = t * kParts; v < (t + 1) * kParts; ++v)
          totals[t] = _mm512_fmadd_ps(scales.min(s), _mm512_set1_ps(x.sums_of(kColumns, v)[part]),
                                      totals[t]);
    }
  }

  template <int kTokens, int kParts>
  static void multiply(const Strip<Panel>& strip, const Vectors& x) {
    __m512 totals[2][kTokens];
    for (auto& half : totals)
      for (__m512& total : half) total = _mm512_setzero_ps();
    for_each_scale<PanelForm>(
        strip, [&](const Panel& panel, const auto& scales, int s, int odd, int64_t part) {
          add_part<kTokens, kParts>(panel, scales, s, x, part, totals[odd]);
        });
    for (int t = 0; t < kTokens; ++t) {
      float* y = x.y[t] + strip.row;
      __m512 sum = _mm512_add_ps(totals[0][t], totals[1][t]);
      if (strip.accumulate) sum = _mm512_add_ps(_mm512_loadu_ps(y), sum);
      _mm512_storeu_ps(y, sum);
    }
  }

  static auto product_of(const Vectors& vectors, const QuantizedActivations& x) {
    const int64_t tokens = vectors.count / x.parts();
    if (x.parts() == 2) return tokens == 1 ? multiply<1, 2> : multiply<2, 2>;
    return tokens == 1   ? multiply<1, 1>
           : tokens == 2 ? multiply<2, 1>
           : tokens == 3 ? multiply<3, 1>
                         : multiply<4, 1>;
  }
};

}  // namespace

// Bound: memory for one token. 16 rows of 64 columns take 70 512-bit instructions for 576 bytes
// (Q4_0) or 640 (Q4_1), 108 for 704 (Q5_0), 62 for 1088 (Q8_0), 80 for 576 (Q4_K) and 128 for 840
// (Q6_K); in two parts they take 110, 148, 102, 120 and 176. Two run per cycle.
void gemv_panels_avx512(const RowsProduct& call) { multiply_panels<PanelForm>(call); }

}  // namespace ridge::backends::cpu
#pragma GCC pop_options
