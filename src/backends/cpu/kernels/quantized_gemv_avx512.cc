// SPDX-License-Identifier: Apache-2.0
// Products with weights in panels of 16 rows for AVX-512 with VNNI: of few tokens straight from the
// panels, a row of W in each lane; for many tokens the panels' codes where the panel product wants
// them. Weights as a file has them: quantized_gemv_avx2.cc, quantized_unpack.cc.
#include <algorithm>
#include <cstdint>

#include "backends/cpu/kernels/quantized_kernels.h"
#include "base/error.h"
#include "base/row_panels.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512vnni,avx2,fma,f16c")
// GCC 12 takes the header's deliberately undefined operands for mistakes.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

namespace ridge::backends::cpu {
namespace {

// How far ahead of its reads a stream of panels is asked for, into L2. Two cores of an Intel Xeon,
// 178 MB of Q8_0: not at all 24 GB/s, 4 KiB 35, 8 KiB 41, 16 KiB 44.
inline constexpr int64_t kFetchBytes = 16384;

template <typename Panel>
inline void fetch_after(const Panel* panel, const ReadPath& path) {
  const std::byte* ahead = path.ahead_of(panel, kFetchBytes);
#pragma GCC unroll 17
  for (size_t line = 0; line < sizeof(Panel); line += 64) __builtin_prefetch(ahead + line, 0, 2);
}

inline __m512i load(const void* from) { return _mm512_loadu_si512(from); }
inline __m512i four_codes(const int8_t* x, int group) {
  return _mm512_set1_epi32(reinterpret_cast<const int32_t*>(x)[group]);
}
inline __m512 scales_of(const uint16_t* halves) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(halves)));
}

// A type's unsigned codes are its numbers plus kOffset; a block is two runs of 16 columns of Q4_0,
// 32 columns of Q8_0.
struct NibblePanels {
  using Panel = PanelQ4_0;
  static constexpr float kOffset = 8;

  // Sums of codes times each vector's. High nibbles stay where they are: their sums are 16 times as
  // large.
  template <int kVectors>
  static void add_dots(const Panel& panel, int half, const int8_t* const* x, __m512i* dots) {
    __m512i high[kVectors];
    for (__m512i& each : high) each = _mm512_setzero_si512();
#pragma GCC unroll 4
    for (int group = 0; group < 4; ++group) {
      const __m512i both = load(panel.quants[half][group]);
      const __m512i low_codes = _mm512_and_si512(both, _mm512_set1_epi8(15));
      const __m512i high_codes = _mm512_and_si512(both, _mm512_set1_epi8(-16));
#pragma GCC unroll 4
      for (int t = 0; t < kVectors; ++t) {
        dots[t] = _mm512_dpbusd_epi32(dots[t], low_codes, four_codes(x[t], group));
        high[t] = _mm512_dpbusd_epi32(high[t], high_codes, four_codes(x[t], 4 + group));
      }
    }
    for (int t = 0; t < kVectors; ++t)
      dots[t] = _mm512_add_epi32(dots[t], _mm512_srai_epi32(high[t], 4));
  }

  static void store_codes(const Panel& panel, int half, uint8_t* to) {
    const __m512i mask = _mm512_set1_epi8(15);
    for (int group = 0; group < 4; ++group) {
      const __m512i both = load(panel.quants[half][group]);
      _mm512_store_si512(to + 64 * group, _mm512_and_si512(both, mask));
      _mm512_store_si512(to + 64 * (4 + group), _mm512_and_si512(_mm512_srli_epi16(both, 4), mask));
    }
  }
};

struct BytePanels {
  using Panel = PanelQ8_0;
  static constexpr float kOffset = 128;

  template <int kVectors>
  static void add_dots(const Panel& panel, int half, const int8_t* const* x, __m512i* dots) {
    __m512i odd[kVectors];
    for (__m512i& each : odd) each = _mm512_setzero_si512();
#pragma GCC unroll 4
    for (int group = 0; group < 8; group += 2) {
      const __m512i first = load(panel.quants[half][group]),
                    second = load(panel.quants[half][group + 1]);
#pragma GCC unroll 4
      for (int t = 0; t < kVectors; ++t) {
        dots[t] = _mm512_dpbusd_epi32(dots[t], first, four_codes(x[t], group));
        odd[t] = _mm512_dpbusd_epi32(odd[t], second, four_codes(x[t], group + 1));
      }
    }
    for (int t = 0; t < kVectors; ++t) dots[t] = _mm512_add_epi32(dots[t], odd[t]);
  }

  static void store_codes(const Panel& panel, int half, uint8_t* to) {
    for (int group = 0; group < 8; ++group)
      _mm512_store_si512(to + 64 * group, load(panel.quants[half][group]));
  }
};

// Up to four of x's vectors of codes, from `first` on, and where the tokens' products go.
struct Vectors {
  Vectors(const QuantizedActivations& x, int64_t first, Rows<float> to)
      : count(std::min<int64_t>(x.vectors() - first, 4)) {
    for (int64_t v = 0; v < count; ++v) {
      const int64_t n = x.token_of(first + v);
      const QuantizedActivations part = x.part(x.part_of(first + v));
      codes[v] = part.codes(n);
      scales[v] = part.scales(n);
      sums[v] = part.sums(n);
    }
    for (int64_t t = 0; t < count / x.parts; ++t) y[t] = to[x.token_of(first) + t];
  }

  int64_t count;
  const int8_t* codes[4] = {};
  const float* scales[4] = {};
  const float* sums[4] = {};  // scale times the sum of a block's codes
  float* y[4] = {};
};

// Of kParts vectors of one token, from v on: s_x sum (c c_x) - o s_x sum c_x, added up.
template <typename Form, int kParts>
inline __m512 unscaled(const __m512i* dots, const Vectors& x, int v, int64_t block) {
  const auto dot = [&](int p) { return _mm512_cvtepi32_ps(dots[v + p]); };
  const auto scale = [&](int p) { return _mm512_set1_ps(x.scales[v + p][block]); };
  const auto sum = [&](int p) { return _mm512_set1_ps(x.sums[v + p][block]); };
  const __m512 code_offset = _mm512_set1_ps(Form::kOffset);
  __m512 offset = _mm512_mul_ps(sum(0), code_offset);
  if constexpr (kParts == 2) offset = _mm512_fmadd_ps(sum(1), code_offset, offset);
  const __m512 first = _mm512_fmsub_ps(dot(0), scale(0), offset);
  if constexpr (kParts == 2) return _mm512_fmadd_ps(dot(1), scale(1), first);
  return first;
}

// 16 rows of W, all columns: sum s_w (s_x sum (c c_x) - o s_x sum c_x) over the blocks. The two
// blocks of a panel have totals of their own, so that an addition need not wait for the one before.
template <typename Form, int kTokens, int kParts>
void multiply_strip(const typename Form::Panel* panels,
                    int64_t across,
                    const Vectors& x,
                    bool accumulate,
                    const ReadPath& path) {
  constexpr int kVectors = kTokens * kParts;
  __m512 totals[2][kTokens];
  for (auto& half : totals)
    for (__m512& total : half) total = _mm512_setzero_ps();
  for (int64_t p = 0; p < across; ++p) {
    fetch_after(panels + p, path);
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      const int64_t block = 2 * p + half;
      const int8_t* codes[kVectors];
      __m512i dots[kVectors];
      for (int v = 0; v < kVectors; ++v) {
        codes[v] = x.codes[v] + block * kActivationBlock;
        dots[v] = _mm512_setzero_si512();
      }
      Form::template add_dots<kVectors>(panels[p], half, codes, dots);
      const __m512 scales = scales_of(panels[p].scales[half]);
#pragma GCC unroll 4
      for (int t = 0; t < kTokens; ++t)
        totals[half][t] = _mm512_fmadd_ps(
            scales, unscaled<Form, kParts>(dots, x, t * kParts, block), totals[half][t]);
    }
  }
  for (int t = 0; t < kTokens; ++t) {
    __m512 sum = _mm512_add_ps(totals[0][t], totals[1][t]);
    if (accumulate) sum = _mm512_add_ps(_mm512_loadu_ps(x.y[t]), sum);
    _mm512_storeu_ps(x.y[t], sum);
  }
}

template <typename Form, int kParts>
void multiply_vectors(const typename Form::Panel* strip,
                      int64_t across,
                      const Vectors& x,
                      bool accumulate,
                      const ReadPath& path) {
  switch (x.count / kParts) {
    case 1:
      return multiply_strip<Form, 1, kParts>(strip, across, x, accumulate, path);
    case 2:
      return multiply_strip<Form, 2, kParts>(strip, across, x, accumulate, path);
    case 3:
      if constexpr (kParts == 1)
        return multiply_strip<Form, 3, kParts>(strip, across, x, accumulate, path);
      break;
    default:
      if constexpr (kParts == 1)
        return multiply_strip<Form, 4, kParts>(strip, across, x, accumulate, path);
  }
}

template <typename Form>
void multiply_range(const QuantizedMatrix& weight,
                    const RowStream& stream,
                    const QuantizedActivations& x,
                    Rows<float> y,
                    bool accumulate) {
  const Range rows = stream.rows;
  const int64_t across = weight.in / kPanelColumns;
  const auto* panels = reinterpret_cast<const typename Form::Panel*>(weight.data);
  const ReadPath path{reinterpret_cast<const std::byte*>(panels + rows.end / kPanelRows * across),
                      stream.then};
  const auto multiply = x.parts == 1 ? multiply_vectors<Form, 1> : multiply_vectors<Form, 2>;
  for (int64_t row = rows.begin; row < rows.end; row += kPanelRows)
    for (int64_t first = 0; first < x.vectors(); first += 4)
      multiply(panels + row / kPanelRows * across, across,
               Vectors(x, first, {y.data + row, y.stride}), accumulate, path);
}

template <typename Form>
void unpack(const QuantizedMatrix& weight,
            int64_t row,
            int64_t column,
            int64_t depth,
            CodePanel& to) {
  const auto* panels = reinterpret_cast<const typename Form::Panel*>(weight.data) +
                       row / kPanelRows * (weight.in / kPanelColumns) + column / kPanelColumns;
  for (int64_t p = 0; p < depth / kPanelColumns; ++p) {
    for (int half = 0; half < 2; ++half) {
      const int64_t block = 2 * p + half;
      Form::store_codes(panels[p], half, to.codes + block * kActivationBlock * kPanelRows);
      const __m512 scales = scales_of(panels[p].scales[half]);
      _mm512_store_ps(to.scales + block * kPanelRows, scales);
      _mm512_store_ps(to.offsets + block * kPanelRows,
                      _mm512_mul_ps(scales, _mm512_set1_ps(-Form::kOffset)));
    }
  }
}

}  // namespace

static_assert(kPanelRows == kPanelRowCount && kPanelDepth % kPanelColumns == 0);

// Bound: memory for one token. A block of 16 rows takes 24 instructions of 512 bits (Q4_0, 288
// bytes) or 15 (Q8_0, 544), in two parts 36 or 26, two a cycle.
void gemv_panels_avx512(const QuantizedMatrix& weight,
                        const RowStream& stream,
                        const QuantizedActivations& x,
                        Rows<float> y,
                        bool accumulate) {
  const Range rows = stream.rows;
  RIDGE_CHECK(rows.begin % kPanelRows == 0 && rows.end % kPanelRows == 0,
              "rows {} to {} are no panels", rows.begin, rows.end);
  if (weight.dtype == DType::kQ4_0x16)
    return multiply_range<NibblePanels>(weight, stream, x, y, accumulate);
  multiply_range<BytePanels>(weight, stream, x, y, accumulate);
}

void unpack_panels_avx512(const QuantizedMatrix& weight,
                          int64_t row,
                          int64_t column,
                          int64_t depth,
                          CodePanel& panel) {
  if (weight.dtype == DType::kQ4_0x16)
    return unpack<NibblePanels>(weight, row, column, depth, panel);
  unpack<BytePanels>(weight, row, column, depth, panel);
}

}  // namespace ridge::backends::cpu
#pragma GCC pop_options
