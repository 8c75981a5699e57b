// SPDX-License-Identifier: Apache-2.0
// The products of unpacked row blocks for AVX2: pairs of int16 are multiplied and added in 32 bits,
// pairs of int8 in 16 bits. gemm_avx512.cc has the form for VNNI.
#include <algorithm>
#include <cstdint>
#include <iterator>

#include "backends/cpu/kernels/quantized/inner_loops.h"

#pragma GCC push_options
#pragma GCC target("avx2,fma,prfchw")
#include <immintrin.h>

namespace ridge::backends::cpu {
namespace {

inline __m256i load(const void* from) {
  return _mm256_load_si256(static_cast<const __m256i*>(from));
}

// Keeps the sum as written: GCC would reassociate a chain of vector additions into a tree, which
// takes more registers than there are.
inline __m256i in_order(__m256i sum) {
  asm("" : "+x"(sum));
  return sum;
}

// Stores or adds the sums of 16 rows, or of fewer at the end of W.
inline void store(__m256 first, __m256 second, float* y, int64_t rows, bool accumulate) {
  if (rows == kRowBlockRows) {
    if (accumulate) {
      first = _mm256_add_ps(_mm256_loadu_ps(y), first);
      second = _mm256_add_ps(_mm256_loadu_ps(y + 8), second);
    }
    _mm256_storeu_ps(y, first);
    _mm256_storeu_ps(y + 8, second);
    return;
  }
  alignas(32) float sums[kRowBlockRows];
  _mm256_store_ps(sums, first);
  _mm256_store_ps(sums + 8, second);
  for (int64_t r = 0; r < rows; ++r) y[r] = accumulate ? y[r] + sums[r] : sums[r];
}

// A weight's scales, to which the bits of a power of two are added.
inline __m256i less_one(const float* scales) {
  return _mm256_sub_epi32(_mm256_castps_si256(_mm256_load_ps(scales)), _mm256_set1_epi32(kOneBits));
}

// The integer sums of one group for 16 rows and kTokens tokens.
template <int kTokens>
using Dots = __m256i[2][kTokens];

struct Int16 {
  template <int kGroup, int kTokens>
  static void set_dots(const UnpackedRows& unpacked,
                       const TokenRows& x,
                       int64_t g,
                       Dots<kTokens>& dots) {
    const int16_t* w = unpacked.int16_quants + g * kGroup * kRowBlockRows;
#pragma GCC unroll 16
    for (int pair = 0; pair < kGroup / 2; ++pair) {
      const __m256i first = load(w + pair * kPairQuants),
                    second = load(w + pair * kPairQuants + kPairQuants / 2);
#pragma GCC unroll 6
      for (int t = 0; t < kTokens; ++t) {
        const __m256i two = _mm256_set1_epi32(x.bits(t, g * kGroup / 2 + pair));
        const __m256i a = _mm256_madd_epi16(first, two), b = _mm256_madd_epi16(second, two);
        dots[0][t] = pair == 0 ? a : in_order(_mm256_add_epi32(dots[0][t], a));
        dots[1][t] = pair == 0 ? b : in_order(_mm256_add_epi32(dots[1][t], b));
      }
    }
  }
};

// Quants up to kMostQuant: the sums of so many steps of four columns fit in 16 bits.
template <int kMostQuant>
struct Int8 {
  static constexpr int kSteps = 32767 / (kMostQuant * 127 * 2);

  template <int kGroup, int kTokens>
  static void set_dots(const UnpackedRows& unpacked,
                       const TokenRows& x,
                       int64_t g,
                       Dots<kTokens>& dots) {
    const uint8_t* w = unpacked.uint8_quants + g * kGroup * kRowBlockRows;
    constexpr int kAll = kGroup / 4, kRun = kSteps < kAll ? kSteps : kAll;
    static_assert(kAll % kRun == 0);
#pragma GCC unroll 4
    for (int begin = 0; begin < kAll; begin += kRun) {
      __m256i sums[2][kTokens];
#pragma GCC unroll 8
      for (int step = begin; step < begin + kRun; ++step) {
        const __m256i first = load(w + step * kStepBytes),
                      second = load(w + step * kStepBytes + kStepBytes / 2);
#pragma GCC unroll 6
        for (int t = 0; t < kTokens; ++t) {
          const __m256i four = _mm256_set1_epi32(x.bits(t, g * kAll + step));
          const __m256i a = _mm256_maddubs_epi16(first, four),
                        b = _mm256_maddubs_epi16(second, four);
          sums[0][t] = step == begin ? a : in_order(_mm256_add_epi16(sums[0][t], a));
          sums[1][t] = step == begin ? b : in_order(_mm256_add_epi16(sums[1][t], b));
        }
      }
      for (int half = 0; half < 2; ++half) {
#pragma GCC unroll 6
        for (int t = 0; t < kTokens; ++t) {
          const __m256i run = _mm256_madd_epi16(sums[half][t], _mm256_set1_epi16(1));
          dots[half][t] = begin == 0 ? run : _mm256_add_epi32(dots[half][t], run);
        }
      }
    }
  }
};

// The sums of scaled groups are in memory, as the integer sums take most registers.
template <typename Form, int kGroup, Extra kExtra, int kTokens>
void multiply(const RowBlockProduct& call, int64_t token) {
  const TokenRows x(call, kGroup, token);
  const UnpackedRows& unpacked = *call.row_blocks;
  const SumStarts<kGroup, kExtra, kTokens> starts(call, x);
  // Each token's row of y is a cache line in another page, seldom in L2: fetched now, it is there
  // when the sums are, and the stores before it do not wait.
  for (int t = 0; t < kTokens && !call.is_streamed; ++t)
    __builtin_prefetch(call.result[token + t], 1);
  alignas(32) float totals[kTokens][kRowBlockRows];
  for (auto& of_token : totals) std::copy_n(unpacked.zero_or_nan, kRowBlockRows, of_token);
  for (int64_t g = 0; g < call.depth / kGroup; ++g) {
    Dots<kTokens> dots;
    Form::template set_dots<kGroup, kTokens>(unpacked, x, g, dots);
    const __m256i scales[2] = {less_one(unpacked.scales + g * kRowBlockRows),
                               less_one(unpacked.scales + g * kRowBlockRows + 8)};
    const float* offsets = unpacked.offsets + g * kRowBlockRows;
#pragma GCC unroll 6
    for (int t = 0; t < kTokens; ++t) {
      const __m256i power = _mm256_set1_epi32(x.scale_bits(t, g * kGroup / kActivationBlock));
      __m256i start;
      if constexpr (kExtra == Extra::kZero) start = _mm256_set1_epi32(starts.of[t][g]);
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        if constexpr (kExtra == Extra::kZero)
          dots[half][t] = _mm256_add_epi32(dots[half][t], start);
        float* sum = totals[t] + 8 * half;
        const __m256 both = _mm256_castsi256_ps(_mm256_add_epi32(scales[half], power));
        __m256 total =
            _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots[half][t]), both, _mm256_load_ps(sum));
        if constexpr (kExtra == Extra::kMin)
          total = _mm256_fmadd_ps(_mm256_load_ps(offsets + 8 * half), _mm256_set1_ps(x.sum(t, g)),
                                  total);
        _mm256_store_ps(sum, total);
      }
    }
  }
  for (int t = 0; t < kTokens; ++t) {
    const __m256 row_scale = _mm256_set1_ps(x.row_scale(t)),
                 first = _mm256_mul_ps(_mm256_load_ps(totals[t]), row_scale),
                 second = _mm256_mul_ps(_mm256_load_ps(totals[t] + 8), row_scale);
    float* y = call.y_of(token + t);
    if (call.is_streamed) {
      _mm256_stream_ps(y, first);
      _mm256_stream_ps(y + 8, second);
    } else {
      store(first, second, y, call.rows, call.accumulate);
    }
  }
}

template <typename Form, int kGroup, Extra kExtra>
void multiply_tokens(const RowBlockProduct& call) {
  // 10 or 12 accumulators, two vectors of quants and an activation fill the 16 registers.
  constexpr void (*kTiles[])(const RowBlockProduct&, int64_t) = {
      multiply<Form, kGroup, kExtra, 1>, multiply<Form, kGroup, kExtra, 2>,
      multiply<Form, kGroup, kExtra, 3>, multiply<Form, kGroup, kExtra, 4>,
      multiply<Form, kGroup, kExtra, 5>, multiply<Form, kGroup, kExtra, 6>};
  static_assert(std::size(kTiles) == kGemmTokensAvx2);
  for_each_tile(call, kGemmTokensAvx2,
                [&](int64_t first, int64_t count) { kTiles[count - 1](call, first); });
}

template <int kGroup>
void multiply_int16(const RowBlockProduct& call) {
  call.has_min ? multiply_tokens<Int16, kGroup, Extra::kMin>(call)
               : multiply_tokens<Int16, kGroup, Extra::kNone>(call);
}

template <int kMostQuant, int kGroup>
void multiply_int8(const RowBlockProduct& call) {
  using Form = Int8<kMostQuant>;
  call.has_min ? multiply_tokens<Form, kGroup, Extra::kMin>(call)
               : multiply_tokens<Form, kGroup, Extra::kZero>(call);
}

template <int kMostQuant>
void multiply_int8(const RowBlockProduct& call) {
  call.group == 16 ? multiply_int8<kMostQuant, 16>(call) : multiply_int8<kMostQuant, 32>(call);
}

}  // namespace

// Mapping: 16 rows x 6 tokens in registers. Per 32 columns of 8 rows and one token: 16
// multiplications, 15 additions and 3 instructions to scale (4 with a min). Bound: four vector
// instructions per cycle, which is 30 multiply-adds per cycle on a core with that many ports.
// Additions take ports from multiplications: loops on registers make 26 (Zen 4).
void gemm_avx2(const RowBlockProduct& call) {
  call.group == 16 ? multiply_int16<16>(call) : multiply_int16<32>(call);
}

// Mapping: the same. Per 32 columns of 8 rows and one token, of quants up to 15: 8 multiplications,
// 7 additions, one multiplication by 1 to widen, and as many instructions to scale. Bound: four
// vector instructions per cycle, about 50 multiply-adds.
void gemm_int8_avx2(const RowBlockProduct& call) {
  call.most_quant <= 15   ? multiply_int8<15>(call)
  : call.most_quant <= 31 ? multiply_int8<31>(call)
                          : multiply_int8<63>(call);
}

}  // namespace ridge::backends::cpu
#pragma GCC pop_options
