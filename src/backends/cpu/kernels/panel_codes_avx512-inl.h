// SPDX-License-Identifier: Apache-2.0
// Panels of 16 rows in vectors of 512 bits, a row of W in each lane: their scales and codes.
// Private to the kernels that read panels with AVX-512.
#pragma once

#include <cstdint>

#include "base/row_panels.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx2,fma")
// GCC 12 takes the header's deliberately undefined operands for mistakes.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>

namespace ridge::backends::cpu {
namespace {

inline __m512i load(const void* from) { return _mm512_loadu_si512(from); }
inline __m512 floats_of_halves(const uint16_t* halves) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(halves)));
}

// What the codes of a panel are multiplied by, and what is added then.
template <typename Panel>
struct Scales {
  explicit Scales(const Panel& of) : panel(of) {}
  __m512 scale(int s) const { return floats_of_halves(panel.scales[s]); }
  __m512 min(int s) const { return floats_of_halves(panel.mins[s]); }
  const Panel& panel;
};

inline __m512i low_nibbles(__m512i bytes) { return _mm512_and_si512(bytes, _mm512_set1_epi8(15)); }
inline __m512i high_nibbles(__m512i bytes) { return low_nibbles(_mm512_srli_epi16(bytes, 4)); }

// What codes have in `mask`: bits moved to the left, or to the right where that is negative.
inline __m512i moved_bits(__m512i bits, int left, int mask) {
  const __m512i moved = left >= 0 ? _mm512_slli_epi16(bits, left) : _mm512_srli_epi16(bits, -left);
  return _mm512_and_si512(moved, _mm512_set1_epi8(static_cast<char>(mask)));
}

// The group-th four columns of those that scale s is for.
template <typename Panel>
inline __m512i codes(const Panel& panel, int s, int group) {
  const __m512i both = load(panel.quants[s][group % 4]);
  const __m512i low = group < 4 ? low_nibbles(both) : high_nibbles(both);
  if constexpr (requires { panel.high_bits; })
    return _mm512_or_si512(low, moved_bits(load(panel.high_bits[s]), 4 - group, 16));
  return low;
}
inline __m512i codes(const PanelQ8_0& panel, int s, int group) {
  return load(panel.quants[s][group]);
}
}  // namespace
}  // namespace ridge::backends::cpu
#pragma GCC pop_options
