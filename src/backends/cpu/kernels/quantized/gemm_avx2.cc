// SPDX-License-Identifier: Apache-2.0
// The 16-bit panel product for AVX2: pairs of words are multiplied and added in 32 bits.
// gemm_avx512.cc has the form for VNNI.
#include <cstdint>
#include <iterator>

#include "backends/cpu/kernels/quantized/inner_loops.h"

#pragma GCC push_options
#pragma GCC target("avx2,fma,prfchw")
#include <immintrin.h>

namespace ridge::backends::cpu {
namespace {

inline __m256i load(const int16_t* from) {
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(from));
}

// Keeps the sum as written: GCC would reassociate a chain of vector additions into a tree, which
// takes more registers than there are.
inline __m256i in_order(__m256i sum) {
  asm("" : "+x"(sum));
  return sum;
}

// The integer sums of one group for 16 rows and kTokens tokens.
template <int kGroup, int kTokens>
inline void group_dots(const int16_t* panel,
                       const TokenRows& x,
                       int64_t k,
                       __m256i (&dots)[2][kTokens]) {
#pragma GCC unroll 16
  for (int pair = 0; pair < kGroup / 2; ++pair) {
    const __m256i first = load(panel + pair * kPairWords),
                  second = load(panel + pair * kPairWords + kPairWords / 2);
#pragma GCC unroll 6
    for (int t = 0; t < kTokens; ++t) {
      const __m256i two = _mm256_set1_epi32(x.bits(t, k / 2 + pair));
      const __m256i a = _mm256_madd_epi16(first, two), b = _mm256_madd_epi16(second, two);
      dots[0][t] = pair == 0 ? a : in_order(_mm256_add_epi32(dots[0][t], a));
      dots[1][t] = pair == 0 ? b : in_order(_mm256_add_epi32(dots[1][t], b));
    }
  }
}

// The sums of scaled groups are in memory, as the integer sums take most registers.
template <int kGroup, bool kHasMin, int kTokens>
void multiply(const PanelProduct& call, int64_t token) {
  const TokenRows x(call, kGroup, token);
  const CodePanel& panel = *call.panels;
  // Each token's row of y is a cache line in another page, seldom in L2: fetched now, it is there
  // when the sums are, and the stores before it do not wait.
  for (int t = 0; t < kTokens; ++t) __builtin_prefetch(call.y[token + t], 1);
  alignas(32) float totals[kTokens][kPanelRows] = {};
  for (int64_t g = 0; g < call.depth / kGroup; ++g) {
    __m256i dots[2][kTokens];
    group_dots<kGroup, kTokens>(panel.words + g * kGroup * kPanelRows, x, g * kGroup, dots);
    const float* scales = panel.scales + g * kPanelRows;
    const float* offsets = panel.offsets + g * kPanelRows;
#pragma GCC unroll 6
    for (int t = 0; t < kTokens; ++t) {
      const __m256 scale = _mm256_set1_ps(x.scale(t, g * kGroup / kActivationBlock));
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        float* sum = totals[t] + 8 * half;
        const __m256 both = _mm256_mul_ps(_mm256_load_ps(scales + 8 * half), scale);
        __m256 total =
            _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots[half][t]), both, _mm256_load_ps(sum));
        if constexpr (kHasMin)
          total = _mm256_fmadd_ps(_mm256_load_ps(offsets + 8 * half), _mm256_set1_ps(x.sum(t, g)),
                                  total);
        _mm256_store_ps(sum, total);
      }
    }
  }
  for (int t = 0; t < kTokens; ++t) {
    float* y = call.y[token + t];
    for (int64_t r = 0; r < call.rows; ++r)
      y[r] = call.accumulate ? y[r] + totals[t][r] : totals[t][r];
  }
}

template <int kGroup, bool kHasMin>
void multiply_tokens(const PanelProduct& call) {
  // 10 or 12 accumulators, two vectors of words and an activation fill the 16 registers.
  constexpr void (*kTiles[])(const PanelProduct&, int64_t) = {
      multiply<kGroup, kHasMin, 1>, multiply<kGroup, kHasMin, 2>, multiply<kGroup, kHasMin, 3>,
      multiply<kGroup, kHasMin, 4>, multiply<kGroup, kHasMin, 5>, multiply<kGroup, kHasMin, 6>};
  for_each_tile(call, std::size(kTiles),
                [&](int64_t first, int64_t count) { kTiles[count - 1](call, first); });
}

}  // namespace

// Mapping: 16 rows x 6 tokens in registers. Per 32 columns of 8 rows and one token: 16
// multiplications, 15 additions and 3 instructions to scale (4 with a min). Bound: four vector
// instructions per cycle, which is 30 multiply-adds per cycle on a core with that many ports.
// Additions take ports from multiplications: loops on registers make 26 (Zen 4).
void gemm_panel_avx2(const PanelProduct& call) {
  if (call.group == 16)
    return call.has_offsets ? multiply_tokens<16, true>(call) : multiply_tokens<16, false>(call);
  call.has_offsets ? multiply_tokens<32, true>(call) : multiply_tokens<32, false>(call);
}

}  // namespace ridge::backends::cpu
#pragma GCC pop_options
