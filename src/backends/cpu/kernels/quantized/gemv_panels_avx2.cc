// SPDX-License-Identifier: Apache-2.0
// GEMMs of few tokens for AVX2 with weights in panels of 16 rows: each lane of two vectors holds a
// row of W, so that a block's sums need no shuffle and its rows share every load of x. gemv_avx2.cc
// reads weights in the file's layout.
#include <cstdint>
#include <type_traits>

#include "backends/cpu/kernels/quantized/gemv_panels-inl.h"
#include "base/row_panels.h"

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#include <immintrin.h>

#include "backends/cpu/kernels/quantized/panel_walk-inl.h"

namespace ridge::backends::cpu {
namespace {

// The same as in gemv_avx2.cc, where it was measured.
inline constexpr int64_t kFetchBytes = 8192;

inline __m256i load(const void* from) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}
// Loads rows 0..7 or 8..15 of a panel.
inline __m256i load(const uint8_t (&group)[16][4], int rows) { return load(group[8 * rows]); }
inline __m256 floats_of_halves(const uint16_t* halves, int rows) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(halves) + rows));
}
inline __m256 floats_of_bytes(const uint8_t* bytes, int rows) {
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadu_si64(bytes + 8 * rows)));
}
inline __m256 floats_of_bytes(const int8_t* bytes, int rows) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadu_si64(bytes + 8 * rows)));
}

// Bytes of Q4_K's scales (base/block_formats.h): the low six bits, or four bits and the top two of
// another byte.
inline __m256i low_six(__m256i bytes) { return _mm256_and_si256(bytes, _mm256_set1_epi8(0x3f)); }
inline __m256i joined(__m256i low_four, __m256i top_two) {
  return _mm256_or_si256(_mm256_and_si256(low_four, _mm256_set1_epi8(0x0f)),
                         _mm256_and_si256(_mm256_srli_epi16(top_two, 2), _mm256_set1_epi8(0x30)));
}

inline __m256i four_codes(const int8_t* x, int group) {
  return _mm256_set1_epi32(reinterpret_cast<const int32_t*>(x)[group]);
}
inline __m256 broadcast(const float* from) { return _mm256_broadcast_ss(from); }

// Keeps the sum as written: GCC would reassociate a chain of vector additions into a tree, which
// takes more registers than there are.
inline __m256i in_order(__m256i sum) {
  asm("" : "+x"(sum));
  return sum;
}

inline __m256i pair_sums(__m256i pairs) { return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)); }

inline __m256i low_nibbles(__m256i bytes) { return _mm256_and_si256(bytes, _mm256_set1_epi8(15)); }
inline __m256i high_nibbles(__m256i bytes) { return low_nibbles(_mm256_srli_epi16(bytes, 4)); }

// The bits of codes in `mask`: moved to the left, or to the right if `left` is negative.
inline __m256i moved_bits(__m256i bits, int left, int mask) {
  const __m256i moved = left >= 0 ? _mm256_slli_epi16(bits, left) : _mm256_srli_epi16(bits, -left);
  return _mm256_and_si256(moved, _mm256_set1_epi8(static_cast<char>(mask)));
}

// The codes of the group-th four columns of those that scale s applies to.
template <typename Panel>
inline __m256i codes(const Panel& panel, int s, int group, int rows) {
  const __m256i both = load(panel.quants[s][group % 4], rows);
  const __m256i low = group < 4 ? low_nibbles(both) : high_nibbles(both);
  if constexpr (requires { panel.high_bits; })
    return _mm256_or_si256(low, moved_bits(load(panel.high_bits[s], rows), 4 - group, 16));
  return low;
}
inline __m256i codes(const PanelQ4_K& panel, int s, int group, int rows) {
  const __m256i both = load(panel.quants[s / 2][group], rows);
  return s % 2 == 0 ? low_nibbles(both) : high_nibbles(both);
}
inline __m256i codes(const PanelQ6_K& panel, int s, int group, int rows) {
  const __m256i both = load(panel.low_bits[s][group / 2], rows),
                low = group % 2 == 0 ? low_nibbles(both) : high_nibbles(both);
  return _mm256_or_si256(low, moved_bits(load(panel.high_bits[s], rows), 4 - 2 * group, 48));
}

// How many sums of a pair of products can be added in 16 bits: with codes of b bits, each is at
// most 2 * 127 * (2^b - 1). With 8 bits, none can.
template <typename Panel>
constexpr int kChain = 8;
template <>
constexpr int kChain<PanelQ5_0> = 4;
template <>
constexpr int kChain<PanelQ6_K> = 2;
template <>
constexpr int kChain<PanelQ8_0> = 0;

// For all rows and each vector: the sum of codes times activations over the columns of scale s.
// Both halves of the rows share a load of x: with separate loads, a seventh more instructions took
// a quarter more time.
template <int kVectors, typename Panel>
requires(kChain<Panel> > 0) inline void set_dots(const Panel& panel,
                                                 int s,
                                                 const int8_t* const* x,
                                                 __m256i (*dots)[kVectors]) {
  constexpr int kGroups = Panel::kScaleColumns / 4;
  __m256i pairs[2][kVectors];
#pragma GCC unroll 8
  for (int group = 0; group < kGroups; ++group) {
    const __m256i w[2] = {codes(panel, s, group, 0), codes(panel, s, group, 1)};
    const bool begins = group % kChain<Panel> == 0, ends = (group + 1) % kChain<Panel> == 0;
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const __m256i four = four_codes(x[v], group);
#pragma GCC unroll 2
      for (int rows = 0; rows < 2; ++rows) {
        const __m256i a = _mm256_maddubs_epi16(w[rows], four);
        pairs[rows][v] = begins ? a : in_order(_mm256_add_epi16(pairs[rows][v], a));
        if (!ends) continue;
        const __m256i sum = pair_sums(pairs[rows][v]);
        dots[rows][v] = group < kChain<Panel> ? sum : _mm256_add_epi32(dots[rows][v], sum);
      }
    }
  }
}

// Codes of 8 bits would overflow 16 bits. Instead |w| is multiplied with x that has w's sign, at
// most 2 * 128 * 127, and widened at once. Flipping the top bit removes the offset of the codes.
template <int kVectors>
inline void set_dots(const PanelQ8_0& panel,
                     int s,
                     const int8_t* const* x,
                     __m256i (*dots)[kVectors]) {
#pragma GCC unroll 8
  for (int group = 0; group < 8; ++group) {
    const auto signed_codes = [&](int rows) {
      return _mm256_xor_si256(load(panel.quants[s][group], rows), _mm256_set1_epi8(-128));
    };
    const __m256i w[2] = {signed_codes(0), signed_codes(1)};
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const __m256i four = four_codes(x[v], group);
#pragma GCC unroll 2
      for (int rows = 0; rows < 2; ++rows) {
        const __m256i dot = pair_sums(
            _mm256_maddubs_epi16(_mm256_abs_epi8(w[rows]), _mm256_sign_epi8(four, w[rows])));
        dots[rows][v] = group == 0 ? dot : in_order(_mm256_add_epi32(dots[rows][v], dot));
      }
    }
  }
}

// The scales that the codes of a panel are multiplied by, and the mins that are added.
template <typename Panel>
struct Scales {
  explicit Scales(const Panel& of) : panel(of) {}
  __m256 scale(int s, int rows) const { return floats_of_halves(panel.scales[s], rows); }
  __m256 min(int s, int rows) const { return floats_of_halves(panel.mins[s], rows); }
  const Panel& panel;
};

// The six-bit scales of all sub-blocks are unpacked at once, as bytes.
template <>
struct Scales<PanelQ4_K> {
  explicit Scales(const PanelQ4_K& panel) {
    for (int half = 0; half < 2; ++half) {
      all[half] = floats_of_halves(panel.scales, half);
      all_min[half] = _mm256_sub_ps(_mm256_setzero_ps(), floats_of_halves(panel.mins, half));
      const auto bytes = [&](int from) { return load(panel.sub_scales[from + 2 * half]); };
      const auto store = [&](uint8_t(*to)[16], __m256i from) {
        _mm256_store_si256(reinterpret_cast<__m256i*>(to[2 * half]), from);
      };
      const __m256i first = bytes(0), second = bytes(4), third = bytes(8);
      store(scales, low_six(first));
      store(scales + 4, joined(third, first));
      store(mins, low_six(second));
      store(mins + 4, joined(_mm256_srli_epi16(third, 4), second));
    }
  }
  __m256 scale(int s, int rows) const {
    return _mm256_mul_ps(all[rows], floats_of_bytes(scales[s], rows));
  }
  __m256 min(int s, int rows) const {
    return _mm256_mul_ps(all_min[rows], floats_of_bytes(mins[s], rows));
  }

  __m256 all[2], all_min[2];  // of the super-block
  alignas(32) uint8_t scales[8][16];
  alignas(32) uint8_t mins[8][16];
};

template <>
struct Scales<PanelQ6_K> {
  explicit Scales(const PanelQ6_K& of)
      : panel(of), all{floats_of_halves(of.scales, 0), floats_of_halves(of.scales, 1)} {}
  __m256 scale(int s, int rows) const {
    return _mm256_mul_ps(all[rows], floats_of_bytes(panel.sub_scales[s], rows));
  }
  const PanelQ6_K& panel;
  __m256 all[2];
};

// Sum s_w (s_x sum (c c_x) - o s_x sum c_x) + m_w s_x sum c_x over the columns that share a scale,
// where o is the offset of the codes.
template <typename P>
struct PanelForm {
  using Panel = P;
  using PanelScales = Scales<Panel>;
  static constexpr int64_t kFetchedAhead = kFetchBytes;
  static constexpr int kOffset = std::is_same_v<Panel, PanelQ8_0> ? 0 : Panel::kOffset;
  static constexpr bool kHasMins = requires(const Panel& panel) { panel.mins; };
  static constexpr int64_t kColumns = Panel::kScaleColumns;

  // Adds the products of kParts vectors of one token, from v on, to `total`; `part` is the index of
  // the kColumns columns in the row.
  template <int kParts>
  static __m256 added(const Scales<Panel>& scales,
                      int s,
                      int rows,
                      const __m256i* dots,
                      const Vectors& x,
                      int v,
                      int64_t part,
                      __m256 total) {
    const auto scale_of = [&](int p) {
      return broadcast(x.scales[v + p] + part * kColumns / kActivationBlock);
    };
    const auto sum_of = [&](int p) { return broadcast(x.sums_of(kColumns, v + p) + part); };
    __m256 dot = _mm256_mul_ps(_mm256_cvtepi32_ps(dots[v]), scale_of(0));
    __m256 sum = sum_of(0);
    if constexpr (kParts == 2) {
      dot = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots[v + 1]), scale_of(1), dot);
      sum = _mm256_add_ps(sum, sum_of(1));
    }
    if constexpr (kOffset != 0) dot = _mm256_fnmadd_ps(sum, _mm256_set1_ps(kOffset), dot);
    total = _mm256_fmadd_ps(scales.scale(s, rows), dot, total);
    if constexpr (kHasMins) total = _mm256_fmadd_ps(scales.min(s, rows), sum, total);
    return total;
  }

  template <int kTokens, int kParts>
  static void add_part(const Panel& panel,
                       const Scales<Panel>& scales,
                       int s,
                       const Vectors& x,
                       int64_t part,
                       __m256 (&totals)[2][kTokens]) {
    constexpr int kVectors = kTokens * kParts;
    const int8_t* codes[kVectors];
    for (int v = 0; v < kVectors; ++v) codes[v] = x.codes[v] + part * kColumns;
    __m256i dots[2][kVectors];
    set_dots<kVectors>(panel, s, codes, dots);
#pragma GCC unroll 2
    for (int rows = 0; rows < 2; ++rows) {
#pragma GCC unroll 4
      for (int t = 0; t < kTokens; ++t)
        totals[rows][t] =
            added<kParts>(scales, s, rows, dots[rows], x, t * kParts, part, totals[rows][t]);
    }
  }

  template <int kTokens, int kParts>
  static void multiply(const Strip<Panel>& strip, const Vectors& x) {
    __m256 totals[2][kTokens];
    for (auto& rows : totals)
      for (__m256& total : rows) total = _mm256_setzero_ps();
    for_each_scale<PanelForm>(
        strip, [&](const Panel& panel, const auto& scales, int s, int, int64_t part) {
          add_part<kTokens, kParts>(panel, scales, s, x, part, totals);
        });
    for (int t = 0; t < kTokens; ++t)
      for (int rows = 0; rows < 2; ++rows) {
        float* y = x.y[t] + strip.row + 8 * rows;
        __m256 sum = totals[rows][t];
        if (strip.accumulate) sum = _mm256_add_ps(_mm256_loadu_ps(y), sum);
        _mm256_storeu_ps(y, sum);
      }
  }
};

}  // namespace

// Bound: memory for one token. 16 rows of 64 columns take 170 vector instructions for 576 bytes
// (Q4_0), 172 for 640 (Q4_1), 268 for 704 (Q5_0), 162 for 1088 (Q8_0), 194 for 576 (Q4_K) and 320
// for 840 (Q6_K); in two parts they take 262, 276, 377, 383, 292 and 446. About three run per
// cycle.
void gemv_panels_avx2(const RowsProduct& call) { multiply_panels<PanelForm>(call); }

}  // namespace ridge::backends::cpu
#pragma GCC pop_options
