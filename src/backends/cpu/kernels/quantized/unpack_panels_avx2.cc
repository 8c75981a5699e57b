// SPDX-License-Identifier: Apache-2.0
// Unpacks panels of 16 rows to words for the 16-bit GEMM of many tokens, with AVX2.
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

inline void store(__m256i words, int16_t* to) {
  _mm256_store_si256(reinterpret_cast<__m256i*>(to), words);
}

// The columns of scale s.
template <typename Panel>
inline void unpack_scale(const Panel& panel, int s, int16_t* words) {
  const __m256i offset = _mm256_set1_epi16(Panel::kOffset);
#pragma GCC unroll 8
  for (int group = 0; group < Panel::kScaleColumns / 4; ++group, words += 4 * kPanelRows) {
#pragma GCC unroll 2
    for (int rows = 0; rows < 2; ++rows) {
      const ColumnPairs pairs(codes(panel, s, group, rows));
      store(_mm256_sub_epi16(pairs.even, offset), words + kPanelRows * rows);
      store(_mm256_sub_epi16(pairs.odd, offset), words + kPairWords + kPanelRows * rows);
    }
  }
}

template <typename Panel>
void unpack(const Panel* panel, int64_t depth, CodePanel& to) {
  int64_t at = 0;  // index of the scale
  for (int64_t column = 0; column < depth; column += Panel::kColumns, ++panel) {
    const Scales<Panel> scales(*panel);
    for (int s = 0; s < kScaleCount<Panel>; ++s, ++at) {
      unpack_scale(*panel, s, to.words + at * Panel::kScaleColumns * kPanelRows);
      for (int rows = 0; rows < 2; ++rows) {
        const int64_t lane = at * kPanelRows + 8 * rows;
        _mm256_store_ps(to.scales + lane, scales.scale(s, rows));
        if constexpr (requires { panel->mins; })
          _mm256_store_ps(to.offsets + lane, scales.min(s, rows));
      }
    }
  }
}

}  // namespace

// Bound: stores, one of 32 bytes per cycle.
void unpack_panels_avx2(const WeightPart& part, CodePanel& panel) {
  with_panel(part.weight.dtype, [&](auto type) {
    using Panel = typename decltype(type)::type;
    unpack(first_panel<Panel>(part), part.depth, panel);
  });
}

}  // namespace ridge::backends::cpu
#pragma GCC pop_options
