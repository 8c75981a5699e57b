// SPDX-License-Identifier: Apache-2.0
// The products of unpacked row blocks for AVX-512 with VNNI: one instruction multiplies pairs of
// int16, or groups of four int8, and accumulates in 32 bits. Without VNNI, the AVX2 form is as fast
// in int16.
#include <algorithm>
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

struct Int16 {
  static constexpr int kColumns = 2;  // one multiplication takes so many
  static __m512i add(__m512i sum, __m512i w, __m512i x) { return _mm512_dpwssd_epi32(sum, w, x); }
};
struct Int8 {
  static constexpr int kColumns = 4;
  static __m512i add(__m512i sum, __m512i w, __m512i x) { return _mm512_dpbusd_epi32(sum, w, x); }
};

template <typename Form, int kGroup, Extra kExtra, int kRowBlocks, int kTokens>
void multiply(const RowBlockProduct& call, int64_t token) {
  // A multiplication takes five cycles and two begin in each, so that ten sums must be independent.
  constexpr int kSums = kRowBlocks * kTokens, kChains = kSums < 4 ? 4 : kSums < 8 ? 2 : 1;
  constexpr int kSteps = kGroup / Form::kColumns;
  const TokenRows x(call, kGroup, token);
  const SumStarts<kGroup, kExtra, kTokens> starts(call, x);
  // As in gemm_avx2.cc.
  for (int t = 0; t < kTokens && !call.is_streamed; ++t) {
    __builtin_prefetch(call.result[token + t], 1);
    if (call.result.data == call.y.data && kRowBlocks == 2)
      __builtin_prefetch(call.result[token + t] + kRowBlockRows, 1);
  }
  __m512 totals[kTokens][kRowBlocks];
  for (auto& of_token : totals)
    for (int p = 0; p < kRowBlocks; ++p)
      of_token[p] = _mm512_load_ps(call.row_blocks[p].zero_or_nan);
  for (int64_t g = 0; g < call.depth / kGroup; ++g) {
    __m512i dots[kTokens][kRowBlocks][kChains];
    for (int t = 0; t < kTokens; ++t) {
      __m512i first = _mm512_setzero_si512();
      if constexpr (kExtra == Extra::kZero) first = _mm512_set1_epi32(starts.of[t][g]);
      for (auto& chains : dots[t]) {
        for (__m512i& dot : chains) dot = _mm512_setzero_si512();
        chains[0] = first;
      }
    }
#pragma GCC unroll 16
    for (int step = 0; step < kSteps; ++step) {
      __m512i w[kRowBlocks];
#pragma GCC unroll 2
      for (int p = 0; p < kRowBlocks; ++p)
        w[p] =
            _mm512_load_si512(call.row_blocks[p].uint8_quants + (g * kSteps + step) * kStepBytes);
#pragma GCC unroll 7
      for (int t = 0; t < kTokens; ++t) {
        const __m512i quants = _mm512_set1_epi32(x.bits(t, g * kSteps + step));
#pragma GCC unroll 2
        for (int p = 0; p < kRowBlocks; ++p) {
          __m512i& dot = dots[t][p][step % kChains];
          dot = Form::add(dot, w[p], quants);
        }
      }
    }
    __m512i scales[kRowBlocks];
    __m512 offsets[kRowBlocks];
    for (int p = 0; p < kRowBlocks; ++p) {
      scales[p] = _mm512_sub_epi32(_mm512_load_si512(call.row_blocks[p].scales + g * kRowBlockRows),
                                   _mm512_set1_epi32(kOneBits));
      if constexpr (kExtra == Extra::kMin)
        offsets[p] = _mm512_load_ps(call.row_blocks[p].offsets + g * kRowBlockRows);
    }
#pragma GCC unroll 7
    for (int t = 0; t < kTokens; ++t) {
      const __m512i power = _mm512_set1_epi32(x.scale_bits(t, g * kGroup / kActivationBlock));
#pragma GCC unroll 2
      for (int p = 0; p < kRowBlocks; ++p) {
        __m512i dot = dots[t][p][0];
        for (int chain = 1; chain < kChains; ++chain)
          dot = _mm512_add_epi32(dot, dots[t][p][chain]);
        __m512& total = totals[t][p];
        const __m512 scale = _mm512_castsi512_ps(_mm512_add_epi32(scales[p], power));
        total = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), scale, total);
        if constexpr (kExtra == Extra::kMin)
          total = _mm512_fmadd_ps(offsets[p], _mm512_set1_ps(x.sum(t, g)), total);
      }
    }
  }
#pragma GCC unroll 7
  for (int t = 0; t < kTokens; ++t) {
    const __m512 row_scale = _mm512_set1_ps(x.row_scale(t));
#pragma GCC unroll 2
    for (int p = 0; p < kRowBlocks; ++p) {
      const int64_t left = std::min(call.rows - p * kRowBlockRows, kRowBlockRows);
      const __mmask16 rows = static_cast<__mmask16>((1u << left) - 1);
      float* y = call.y_of(token + t) + p * kRowBlockRows;
      if (call.is_streamed) {
        _mm512_stream_ps(y, _mm512_mul_ps(totals[t][p], row_scale));
        continue;
      }
      const __m512 before = call.accumulate ? _mm512_maskz_loadu_ps(rows, y) : _mm512_setzero_ps();
      _mm512_mask_storeu_ps(y, rows, _mm512_fmadd_ps(totals[t][p], row_scale, before));
    }
  }
}

using Tile = void (*)(const RowBlockProduct& call, int64_t token);
template <typename Form, int kGroup, Extra kExtra, int kRowBlocks, int... kLess>
constexpr std::array<Tile, sizeof...(kLess)> tiles(std::integer_sequence<int, kLess...>) {
  return {multiply<Form, kGroup, kExtra, kRowBlocks, kLess + 1>...};
}

template <typename Form, int kGroup, Extra kExtra, int kRowBlocks>
void multiply_tokens(const RowBlockProduct& call) {
  // 14 + 14 of the 32 registers hold sums.
  static constexpr auto kTiles =
      tiles<Form, kGroup, kExtra, kRowBlocks>(std::make_integer_sequence<int, kGemmTokensAvx512>());
  for_each_tile(call, kTiles.size(), [&](int64_t first, int64_t count) {
    kTiles[static_cast<size_t>(count - 1)](call, first);
  });
}

template <typename Form, int kGroup, Extra kExtra>
void multiply_row_blocks(const RowBlockProduct& call) {
  call.rows > kRowBlockRows ? multiply_tokens<Form, kGroup, kExtra, 2>(call)
                            : multiply_tokens<Form, kGroup, kExtra, 1>(call);
}

template <int kGroup>
void multiply_int16(const RowBlockProduct& call) {
  call.has_min ? multiply_row_blocks<Int16, kGroup, Extra::kMin>(call)
               : multiply_row_blocks<Int16, kGroup, Extra::kNone>(call);
}

template <int kGroup>
void multiply_int8(const RowBlockProduct& call) {
  call.has_min ? multiply_row_blocks<Int8, kGroup, Extra::kMin>(call)
               : multiply_row_blocks<Int8, kGroup, Extra::kZero>(call);
}

}  // namespace

bool has_vnni() { return __builtin_cpu_supports("avx512vnni") != 0; }

// Mapping: 32 rows x 7 tokens in registers. Per 32 columns, 16 rows and token: 16 multiplications
// of int16 or 8 of int8, and to scale one more instruction on the multipliers' ports, two with a
// min. Bound: one multiplication (32 or 64 multiply-adds) per cycle and port; two row blocks halve
// the loads of activations, which would take as many cycles.
void gemm_avx512(const RowBlockProduct& call) {
  const bool halves = call.group == 16;
  if (call.x->is_int16()) return halves ? multiply_int16<16>(call) : multiply_int16<32>(call);
  halves ? multiply_int8<16>(call) : multiply_int8<32>(call);
}

}  // namespace ridge::backends::cpu
#pragma GCC pop_options
