// SPDX-License-Identifier: Apache-2.0
// The 16-bit panel product for AVX-512 with VNNI: one instruction multiplies pairs of words and
// accumulates in 32 bits. Without VNNI, the AVX2 form is as fast.
#include <array>
#include <cstdint>
#include <utility>

#include "backends/cpu/kernels/quantized/inner_loops.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512vnni,avx2,fma")
// GCC 12 warns about operands that the header leaves undefined on purpose.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

namespace ridge::backends::cpu {
namespace {

template <int kGroup, bool kHasMin, int kTokens>
void multiply(const PanelProduct& call, int64_t token) {
  // A multiplication takes five cycles and two begin in each, so that ten sums must be independent.
  constexpr int kChains = kTokens < 4 ? 4 : kTokens < 8 ? 2 : 1;
  const TokenRows x(call, kGroup, token);
  const WordPanel& panel = *call.panel;
  __m512 totals[kTokens];
  for (__m512& total : totals) total = _mm512_setzero_ps();
  for (int64_t g = 0; g < call.depth / kGroup; ++g) {
    __m512i dots[kTokens][kChains];
    for (auto& chains : dots)
      for (__m512i& dot : chains) dot = _mm512_setzero_si512();
    const int16_t* words = panel.words + g * kGroup * kPanelRows;
#pragma GCC unroll 16
    for (int pair = 0; pair < kGroup / 2; ++pair) {
      const __m512i w = _mm512_load_si512(words + pair * kPairWords);
#pragma GCC unroll 12
      for (int t = 0; t < kTokens; ++t) {
        __m512i& dot = dots[t][pair % kChains];
        dot = _mm512_dpwssd_epi32(dot, w, _mm512_set1_epi32(x.two_words(t, g * kGroup + 2 * pair)));
      }
    }
    const __m512 scales = _mm512_load_ps(panel.scales + g * kPanelRows);
    const __m512 offsets = _mm512_load_ps(panel.offsets + g * kPanelRows);
#pragma GCC unroll 12
    for (int t = 0; t < kTokens; ++t) {
      __m512i dot = dots[t][0];
      for (int chain = 1; chain < kChains; ++chain) dot = _mm512_add_epi32(dot, dots[t][chain]);
      const __m512 both =
          _mm512_mul_ps(scales, _mm512_set1_ps(x.scale(t, g * kGroup / kActivationBlock)));
      totals[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), both, totals[t]);
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

using Tile = void (*)(const PanelProduct& call, int64_t token);
template <int kGroup, bool kHasMin, int... kLess>
constexpr std::array<Tile, sizeof...(kLess)> tiles(std::integer_sequence<int, kLess...>) {
  return {multiply<kGroup, kHasMin, kLess + 1>...};
}

template <int kGroup, bool kHasMin>
void multiply_tokens(const PanelProduct& call) {
  // 12 + 12 of the 32 registers hold sums.
  static constexpr auto kTiles = tiles<kGroup, kHasMin>(std::make_integer_sequence<int, 12>());
  for_each_tile(call.tokens, kTiles.size(), [&](int64_t first, int64_t count) {
    kTiles[static_cast<size_t>(count - 1)](call, first);
  });
}

}  // namespace

bool has_vnni() { return __builtin_cpu_supports("avx512vnni") != 0; }

// Mapping: 16 rows x 12 tokens in registers. Per 32 columns and token: 16 multiplications and 3
// instructions to scale, 4 with a min. Bound: one multiplication (32 multiply-adds) per cycle and
// port.
void gemm_panel_avx512(const PanelProduct& call) {
  if (call.format.group == 16)
    return call.format.has_min ? multiply_tokens<16, true>(call) : multiply_tokens<16, false>(call);
  call.format.has_min ? multiply_tokens<32, true>(call) : multiply_tokens<32, false>(call);
}

}  // namespace ridge::backends::cpu
#pragma GCC pop_options
