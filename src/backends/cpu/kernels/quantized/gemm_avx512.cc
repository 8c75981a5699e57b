// SPDX-License-Identifier: Apache-2.0
// The 16-bit panel product for AVX-512 with VNNI: one instruction multiplies pairs of words and
// accumulates in 32 bits. Without VNNI, the AVX2 form is as fast.
#include <cstdint>

#include "backends/cpu/kernels/quantized/inner_loops.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512vnni,avx2,fma")
// GCC 12 warns about operands that the header leaves undefined on purpose.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

namespace ridge::backends::cpu {
namespace {

inline constexpr int kTileTokens = 8;  // 8 + 8 of the 32 registers hold sums

template <int kGroup, bool kHasMin, int kTokens>
void multiply(const PanelProduct& call, const TokenRows& x, int64_t token) {
  const WordPanel& panel = *call.panel;
  __m512 totals[kTokens];
  for (__m512& total : totals) total = _mm512_setzero_ps();
  for (int64_t g = 0; g < call.depth / kGroup; ++g) {
    __m512i dots[kTokens];
    for (__m512i& dot : dots) dot = _mm512_setzero_si512();
    const int16_t* words = panel.words + g * kGroup * kPanelRows;
#pragma GCC unroll 16
    for (int pair = 0; pair < kGroup / 2; ++pair) {
      const __m512i w = _mm512_load_si512(words + pair * kPairWords);
#pragma GCC unroll 8
      for (int t = 0; t < kTokens; ++t)
        dots[t] = _mm512_dpwssd_epi32(dots[t], w,
                                      _mm512_set1_epi32(x.two_words(t, g * kGroup + 2 * pair)));
    }
    const __m512 scales = _mm512_load_ps(panel.scales + g * kPanelRows);
    const __m512 offsets = _mm512_load_ps(panel.offsets + g * kPanelRows);
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      const __m512 both =
          _mm512_mul_ps(scales, _mm512_set1_ps(x.scale(t, g * kGroup / kActivationBlock)));
      totals[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[t]), both, totals[t]);
      if constexpr (kHasMin)
        totals[t] = _mm512_fmadd_ps(offsets, _mm512_set1_ps(x.sum(t, g)), totals[t]);
    }
  }
  const __mmask16 rows = static_cast<__mmask16>((1u << call.rows) - 1);
  for (int t = 0; t < kTokens; ++t) {
    float* y = call.y[token + t];
    const __m512 before = call.accumulate ? _mm512_maskz_loadu_ps(rows, y) : _mm512_setzero_ps();
    _mm512_mask_storeu_ps(y, rows, _mm512_add_ps(before, totals[t]));
  }
}

template <int kGroup, bool kHasMin>
void multiply_tokens(const PanelProduct& call) {
  int64_t n = call.tokens.begin;
  for (; n + kTileTokens <= call.tokens.end; n += kTileTokens) {
    multiply<kGroup, kHasMin, kTileTokens>(call, {call, kGroup, n}, n);
  }
  for (; n < call.tokens.end; ++n) multiply<kGroup, kHasMin, 1>(call, {call, kGroup, n}, n);
}

}  // namespace

bool has_vnni() { return __builtin_cpu_supports("avx512vnni") != 0; }

// Mapping: 16 rows x 8 tokens in registers. Per 32 columns and token: 16 multiplications and 3
// instructions to scale, 4 with a min. Bound: one multiplication (32 multiply-adds) per cycle and
// port.
void gemm_panel_avx512(const PanelProduct& call) {
  if (call.format.group == 16)
    return call.format.has_min ? multiply_tokens<16, true>(call) : multiply_tokens<16, false>(call);
  call.format.has_min ? multiply_tokens<32, true>(call) : multiply_tokens<32, false>(call);
}

}  // namespace ridge::backends::cpu
#pragma GCC pop_options
