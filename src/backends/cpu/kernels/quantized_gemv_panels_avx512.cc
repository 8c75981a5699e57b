// SPDX-License-Identifier: Apache-2.0
// Products of few tokens with weights in panels of 16 rows for AVX-512 with VNNI, straight from the
// panels: a row of W in each lane. Weights as a file has them: quantized_gemv_avx2.cc.
#include <cstdint>

#include "backends/cpu/kernels/quantized_gemv_panels-inl.h"
#include "base/row_panels.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512vnni,avx2,fma,f16c")
// GCC 12 takes the header's deliberately undefined operands for mistakes.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

namespace ridge::backends::cpu {
namespace {

// How far ahead of its reads a stream of panels is asked for, into L2. Two cores of an Intel Xeon,
// 178 MB of Q8_0: not at all 24 GB/s, 4 KiB 35, 8 KiB 41, 16 KiB 44.
inline constexpr int64_t kFetchBytes = 16384;

inline __m512i load(const void* from) { return _mm512_loadu_si512(from); }
inline __m512i four_codes(const int8_t* x, int group) {
  return _mm512_set1_epi32(reinterpret_cast<const int32_t*>(x)[group]);
}
inline __m512 floats_of_halves(const uint16_t* halves) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(halves)));
}

// Sums of a block's codes times each vector's. High nibbles stay where they are: their sums are 16
// times as large.
template <int kVectors, typename Panel>
inline void add_dots(const Panel& panel, int half, const int8_t* const* x, __m512i* dots) {
  __m512i high[kVectors];
  for (__m512i& each : high) each = _mm512_setzero_si512();
#pragma GCC unroll 4
  for (int group = 0; group < 4; ++group) {
    const __m512i both = load(panel.quants[half][group]);
    const __m512i low_codes = _mm512_and_si512(both, _mm512_set1_epi8(15));
    const __m512i high_codes = _mm512_and_si512(both, _mm512_set1_epi8(-16));
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      dots[v] = _mm512_dpbusd_epi32(dots[v], low_codes, four_codes(x[v], group));
      high[v] = _mm512_dpbusd_epi32(high[v], high_codes, four_codes(x[v], 4 + group));
    }
  }
  for (int v = 0; v < kVectors; ++v)
    dots[v] = _mm512_add_epi32(dots[v], _mm512_srai_epi32(high[v], 4));
}

// Bit `group` of each byte moved to bit 4, and 15 kept of the code.
inline __m512i with_fifth_bit(__m512i code, __m512i bits, int group) {
  const __m512i moved =
      group < 4 ? _mm512_slli_epi16(bits, 4 - group) : _mm512_srli_epi16(bits, group - 4);
  const __m512i low = _mm512_and_si512(code, _mm512_set1_epi8(15));
  return _mm512_or_si512(low, _mm512_and_si512(moved, _mm512_set1_epi8(16)));
}

template <int kVectors>
inline void add_dots(const PanelQ5_0& panel, int half, const int8_t* const* x, __m512i* dots) {
  const __m512i bits = load(panel.high_bits[half]);
  __m512i high[kVectors];
  for (__m512i& each : high) each = _mm512_setzero_si512();
#pragma GCC unroll 4
  for (int group = 0; group < 4; ++group) {
    const __m512i both = load(panel.quants[half][group]);
    const __m512i low_codes = with_fifth_bit(both, bits, group),
                  high_codes = with_fifth_bit(_mm512_srli_epi16(both, 4), bits, 4 + group);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      dots[v] = _mm512_dpbusd_epi32(dots[v], low_codes, four_codes(x[v], group));
      high[v] = _mm512_dpbusd_epi32(high[v], high_codes, four_codes(x[v], 4 + group));
    }
  }
  for (int v = 0; v < kVectors; ++v) dots[v] = _mm512_add_epi32(dots[v], high[v]);
}

template <int kVectors>
inline void add_dots(const PanelQ8_0& panel, int half, const int8_t* const* x, __m512i* dots) {
  __m512i odd[kVectors];
  for (__m512i& each : odd) each = _mm512_setzero_si512();
#pragma GCC unroll 4
  for (int group = 0; group < 8; group += 2) {
    const __m512i first = load(panel.quants[half][group]),
                  second = load(panel.quants[half][group + 1]);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      dots[v] = _mm512_dpbusd_epi32(dots[v], first, four_codes(x[v], group));
      odd[v] = _mm512_dpbusd_epi32(odd[v], second, four_codes(x[v], group + 1));
    }
  }
  for (int v = 0; v < kVectors; ++v) dots[v] = _mm512_add_epi32(dots[v], odd[v]);
}

// Of kParts vectors of one token, from v on: s_x sum (c c_x) - o s_x sum c_x, added up, where o is
// what codes are above their numbers.
template <int kOffset, int kParts>
inline __m512 unscaled(const __m512i* dots, const Vectors& x, int v, int64_t block) {
  const auto dot = [&](int p) { return _mm512_cvtepi32_ps(dots[v + p]); };
  const auto scale = [&](int p) { return _mm512_set1_ps(x.scales[v + p][block]); };
  const auto sum = [&](int p) { return _mm512_set1_ps(x.sums[v + p][block]); };
  __m512 first;
  if constexpr (kOffset == 0) {
    first = _mm512_mul_ps(dot(0), scale(0));
  } else {
    const __m512 code_offset = _mm512_set1_ps(kOffset);
    __m512 offset = _mm512_mul_ps(sum(0), code_offset);
    if constexpr (kParts == 2) offset = _mm512_fmadd_ps(sum(1), code_offset, offset);
    first = _mm512_fmsub_ps(dot(0), scale(0), offset);
  }
  if constexpr (kParts == 2) return _mm512_fmadd_ps(dot(1), scale(1), first);
  return first;
}

// Sum s_w (s_x sum (c c_x) - o s_x sum c_x) + m_w s_x sum c_x over the blocks. The two blocks of a
// panel have totals of their own, so that an addition need not wait for the one before.
template <typename P>
struct PanelForm {
  using Panel = P;

  template <int kTokens, int kParts>
  static void multiply(const Strip<Panel>& strip, const Vectors& x) {
    constexpr int kVectors = kTokens * kParts;
    __m512 totals[2][kTokens];
    for (auto& half : totals)
      for (__m512& total : half) total = _mm512_setzero_ps();
    for (int64_t p = 0; p < strip.across; ++p) {
      const Panel& panel = strip.panels[p];
      fetch_after<kFetchBytes>(&panel, strip.path);
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        const int64_t block = 2 * p + half;
        const int8_t* codes[kVectors];
        __m512i dots[kVectors];
        for (int v = 0; v < kVectors; ++v) {
          codes[v] = x.codes[v] + block * kActivationBlock;
          dots[v] = _mm512_setzero_si512();
        }
        add_dots<kVectors>(panel, half, codes, dots);
        const __m512 scales = floats_of_halves(panel.scales[half]);
#pragma GCC unroll 4
        for (int t = 0; t < kTokens; ++t) {
          __m512& total = totals[half][t];
          total = _mm512_fmadd_ps(
              scales, unscaled<Panel::kOffset, kParts>(dots, x, t * kParts, block), total);
          if constexpr (requires { panel.mins; })
            for (int v = t * kParts; v < (t + 1) * kParts; ++v)
              total = _mm512_fmadd_ps(floats_of_halves(panel.mins[half]),
                                      _mm512_set1_ps(x.sums[v][block]), total);
        }
      }
    }
    for (int t = 0; t < kTokens; ++t) {
      float* y = x.y[t] + strip.row;
      __m512 sum = _mm512_add_ps(totals[0][t], totals[1][t]);
      if (strip.accumulate) sum = _mm512_add_ps(_mm512_loadu_ps(y), sum);
      _mm512_storeu_ps(y, sum);
    }
  }
};

}  // namespace

// Bound: memory for one token. A block of 16 rows takes 24 instructions of 512 bits (Q4_0, 288
// bytes; Q4_1, 320), 45 (Q5_0, 352) or 15 (Q8_0, 544), in two parts 36, 57 or 26, two a cycle.
void gemv_panels_avx512(const QuantizedMatrix& weight,
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
