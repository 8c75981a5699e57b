// SPDX-License-Identifier: Apache-2.0
// The 8-bit panel product for AVX2: unsigned codes times signed activations in 16-bit pairs. VNNI's
// form is quantized_gemm_avx512.cc.
#include <cstdint>

#include "backends/cpu/kernels/quantized_kernels.h"

#pragma GCC push_options
#pragma GCC target("avx2,fma")
#include <immintrin.h>

namespace ridge::backends::cpu {
namespace {

inline constexpr int64_t kRowBytes = 4 * kPanelRows;  // of the panel, per four columns

// Where a token's parts begin for the panel's first column; all tokens have the same stride.
struct TokenRows {
  const std::byte* codes;
  const std::byte* scales;
  const std::byte* sums;
  int64_t stride;

  __m256i four_codes(int64_t token, int64_t k) const {
    return _mm256_set1_epi32(*reinterpret_cast<const int32_t*>(codes + token * stride + k));
  }
  __m256 scale(int64_t token, int64_t block) const {
    return _mm256_broadcast_ss(reinterpret_cast<const float*>(scales + token * stride) + block);
  }
  __m256 sum(int64_t token, int64_t group) const {
    return _mm256_broadcast_ss(reinterpret_cast<const float*>(sums + token * stride) + group);
  }
};

inline __m256i load(const uint8_t* from) {
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(from));
}

// The sum as written: GCC would reassociate a chain of vector additions into a tree, which takes
// more registers than there are.
inline __m256i in_order(__m256i sum) {
  asm("" : "+x"(sum));
  return sum;
}

// One group's integer sums of 16 rows and kTokens tokens. A pair of products of codes up to c and
// activations up to 127 is at most 254 c, so kChain such pairs (8 for 15, 4 for 31, 2 for 63) can
// be added in 16 bits before they are widened.
template <int kGroup, int kChain, int kTokens>
inline void group_dots(const uint8_t* panel,
                       const TokenRows& x,
                       int64_t k,
                       __m256i (&dots)[2][kTokens]) {
  const __m256i ones = _mm256_set1_epi16(1);
#pragma GCC unroll 4
  for (int chain = 0; chain < kGroup / 4; chain += kChain) {
    __m256i pairs[2][kTokens];
#pragma GCC unroll 8
    for (int step = 0; step < kChain; ++step) {
      const uint8_t* from = panel + (chain + step) * kRowBytes;
      const __m256i first = load(from), second = load(from + 32);
#pragma GCC unroll 4
      for (int t = 0; t < kTokens; ++t) {
        const __m256i four = x.four_codes(t, k + 4 * (chain + step));
        const __m256i a = _mm256_maddubs_epi16(first, four);
        const __m256i b = _mm256_maddubs_epi16(second, four);
        pairs[0][t] = step == 0 ? a : in_order(_mm256_add_epi16(pairs[0][t], a));
        pairs[1][t] = step == 0 ? b : in_order(_mm256_add_epi16(pairs[1][t], b));
      }
    }
#pragma GCC unroll 4
    for (int t = 0; t < kTokens; ++t) {
      const __m256i a = _mm256_madd_epi16(pairs[0][t], ones);
      const __m256i b = _mm256_madd_epi16(pairs[1][t], ones);
      dots[0][t] = chain == 0 ? a : in_order(_mm256_add_epi32(dots[0][t], a));
      dots[1][t] = chain == 0 ? b : in_order(_mm256_add_epi32(dots[1][t], b));
    }
  }
}

// Codes of 8 bits would overflow 16: |w| times x with w's sign, widened at once. Q8_0's offset is
// undone by flipping the top bit; its -128 becomes 128 as a magnitude, and 2 * 128 * 127 still
// fits.
template <int kTokens>
inline void signed_group_dots(const uint8_t* panel,
                              const TokenRows& x,
                              int64_t k,
                              __m256i (&dots)[2][kTokens]) {
  const __m256i ones = _mm256_set1_epi16(1), top = _mm256_set1_epi8(-128);
  for (int step = 0; step < 8; ++step) {
    const uint8_t* from = panel + step * kRowBytes;
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      const __m256i w = _mm256_xor_si256(load(from + 32 * half), top);
      const __m256i magnitude = _mm256_abs_epi8(w);
#pragma GCC unroll 4
      for (int t = 0; t < kTokens; ++t) {
        const __m256i four = _mm256_sign_epi8(x.four_codes(t, k + 4 * step), w);
        const __m256i dot = _mm256_madd_epi16(_mm256_maddubs_epi16(magnitude, four), ones);
        dots[half][t] = step == 0 ? dot : in_order(_mm256_add_epi32(dots[half][t], dot));
      }
    }
  }
}

// kChain 0 stands for signed codes, whose offset is already undone.
template <int kGroup, int kChain, int kTokens>
void multiply(const PanelProduct& call, const TokenRows& x, int64_t token) {
  const CodePanel& panel = *call.panel;
  __m256 total[2][kTokens];
  for (auto& half : total) {
    for (__m256& t : half) t = _mm256_setzero_ps();
  }
  for (int64_t g = 0; g < call.depth / kGroup; ++g) {
    __m256i dots[2][kTokens];
    const uint8_t* codes = panel.codes + g * kGroup * kPanelRows;
    if constexpr (kChain == 0) {
      signed_group_dots<kTokens>(codes, x, g * kGroup, dots);
    } else {
      group_dots<kGroup, kChain, kTokens>(codes, x, g * kGroup, dots);
    }
    const float* scales = panel.scales + g * kPanelRows;
    const float* offsets = panel.offsets + g * kPanelRows;
#pragma GCC unroll 4
    for (int t = 0; t < kTokens; ++t) {
      const __m256 scale = x.scale(t, g * kGroup / kActivationBlock);
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        const __m256 both = _mm256_mul_ps(_mm256_load_ps(scales + 8 * half), scale);
        total[half][t] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots[half][t]), both, total[half][t]);
        if constexpr (kChain != 0) {
          total[half][t] =
              _mm256_fmadd_ps(_mm256_load_ps(offsets + 8 * half), x.sum(t, g), total[half][t]);
        }
      }
    }
  }
  for (int t = 0; t < kTokens; ++t) {
    alignas(32) float row[kPanelRows];
    _mm256_store_ps(row, total[0][t]);
    _mm256_store_ps(row + 8, total[1][t]);
    float* y = call.y[token + t];
    for (int64_t r = 0; r < call.rows; ++r) y[r] = call.accumulate ? y[r] + row[r] : row[r];
  }
}

// Three tokens: their 6 + 6 accumulators, two vectors of codes, an activation and a product are the
// 16 registers. Two where a group has several chains, and so 4 accumulators more.
template <int kGroup, int kChain>
void multiply_tokens(const PanelProduct& call) {
  const QuantizedActivations& x = *call.x;
  const int64_t group_offset = call.column / kGroup;
  const auto rows_at = [&](int64_t n) {
    const float* sums = kGroup == 16 ? x.half_sums(n) : x.sums(n);
    return TokenRows{
        reinterpret_cast<const std::byte*>(x.codes(n) + call.column),
        reinterpret_cast<const std::byte*>(x.scales(n) + call.column / kActivationBlock),
        reinterpret_cast<const std::byte*>(sums + group_offset), x.row_bytes()};
  };
  constexpr int kTokens = 4 * kChain == kGroup ? 3 : 2;
  int64_t n = call.tokens.begin;
  for (; n + kTokens <= call.tokens.end; n += kTokens) {
    multiply<kGroup, kChain, kTokens>(call, rows_at(n), n);
  }
  for (; n < call.tokens.end; ++n) multiply<kGroup, kChain, 1>(call, rows_at(n), n);
}

}  // namespace

// Mapping: 16 rows x 3 tokens in registers; per 32 columns of 8 rows and one token 8 products, 7
// additions and 5 instructions that scale. Bound: four vector instructions a cycle, 51
// multiply-adds a cycle on a core that has so many ports.
void gemm_panel_avx2(const PanelProduct& call) {
  if (call.format.largest == 255) return multiply_tokens<32, 0>(call);
  if (call.format.group == 16) {
    return call.format.largest > 15 ? multiply_tokens<16, 2>(call) : multiply_tokens<16, 4>(call);
  }
  if (call.format.largest > 15) return multiply_tokens<32, 4>(call);
  multiply_tokens<32, 8>(call);
}

}  // namespace ridge::backends::cpu
#pragma GCC pop_options
