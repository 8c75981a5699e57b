// SPDX-License-Identifier: Apache-2.0
// Unpacks panels of 16 rows to int16 or uint8 for the GEMMs of many tokens, with AVX2.
// unpack_panels_avx512.cc has the form for AVX-512; unpack.cc unpacks rows of blocks.
#include <cstdint>

#include "backends/cpu/kernels/quantized/inner_loops.h"
#include "backends/cpu/kernels/quantized/panel_codes_avx2-inl.h"
#include "base/row_panels.h"

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#include <immintrin.h>

namespace ridge::backends::cpu {
namespace {

inline void store(__m256i quants, void* to) {
  _mm256_store_si256(static_cast<__m256i*>(to), quants);
}

// The columns of scale s.
template <typename Panel>
inline void unpack_int16(const Panel& panel, int s, CodePanel& to, int64_t at) {
  int16_t* int16_to = to.int16_quants + at * Panel::kScaleColumns * kPanelRows;
  const __m256i offset = _mm256_set1_epi16(Panel::kOffset);
#pragma GCC unroll 8
  for (int group = 0; group < Panel::kScaleColumns / 4; ++group, int16_to += 4 * kPanelRows) {
#pragma GCC unroll 2
    for (int rows = 0; rows < 2; ++rows) {
      const ColumnPairs pairs(load_quants(panel, s, group, rows));
      store(_mm256_sub_epi16(pairs.even, offset), int16_to + kPanelRows * rows);
      store(_mm256_sub_epi16(pairs.odd, offset), int16_to + kPairQuants + kPanelRows * rows);
    }
  }
}

template <typename Panel>
inline void unpack_int8(const Panel& panel, int s, CodePanel& to, int64_t at) {
  uint8_t* uint8_to = to.uint8_quants + at * Panel::kScaleColumns * kPanelRows;
#pragma GCC unroll 8
  for (int group = 0; group < Panel::kScaleColumns / 4; ++group, uint8_to += kStepBytes)
#pragma GCC unroll 2
    for (int rows = 0; rows < 2; ++rows)
      store(load_quants(panel, s, group, rows), uint8_to + kStepBytes / 2 * rows);
}

template <bool kIsInt8, typename Panel>
void unpack(const Panel* panel, int64_t depth, CodePanel& to) {
  int64_t at = 0;  // index of the scale
  __m256 zero_or_nan[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
  for (int64_t column = 0; column < depth; column += Panel::kColumns, ++panel) {
    const Scales<Panel> scales(*panel);
    for (int s = 0; s < kScaleCount<Panel>; ++s, ++at) {
      if constexpr (kIsInt8)
        unpack_int8(*panel, s, to, at);
      else
        unpack_int16(*panel, s, to, at);
      for (int rows = 0; rows < 2; ++rows) {
        const int64_t lane = at * kPanelRows + 8 * rows;
        const __m256 scale = scales.scale(s, rows);
        zero_or_nan[rows] = _mm256_fmadd_ps(scale, _mm256_setzero_ps(), zero_or_nan[rows]);
        _mm256_store_ps(to.scales + lane, scale);
        if constexpr (requires { panel->mins; })
          _mm256_store_ps(to.offsets + lane, scales.min(s, rows));
      }
    }
  }
  for (int rows = 0; rows < 2; ++rows)
    _mm256_store_ps(to.zero_or_nan + 8 * rows, zero_or_nan[rows]);
}

template <bool kIsInt8>
void unpack_part(const WeightPart& part, CodePanel& panel) {
  with_panel(part.weight.dtype, [&](auto type) {
    using Panel = typename decltype(type)::type;
    unpack<kIsInt8>(first_panel<Panel>(part), part.depth, panel);
  });
}

}  // namespace

// Bound: stores, one of 32 bytes per cycle.
void unpack_panels_avx2(const WeightPart& part, CodePanel& panel) {
  unpack_part<false>(part, panel);
}

// Bound: half as many stores.
void unpack_int8_panels_avx2(const WeightPart& part, CodePanel& panel) {
  unpack_part<true>(part, panel);
}

}  // namespace ridge::backends::cpu
#pragma GCC pop_options
