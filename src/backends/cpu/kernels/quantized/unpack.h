// SPDX-License-Identifier: Apache-2.0
// Weights in blocks brought into the forms that GEMMs multiply: 8-bit codes
// with a scale and an offset per group, rows of 16 interleaved, or floats.
// What the GEMMs share; callers of kernels take matmul.h.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/quantized/matmul.h"
#include "base/dtype.h"

namespace ridge::backends::cpu {

// What a format looks like as codes: x_i = scale * code_i + offset, scale and offset per group.
// Where there is no min, offset is -zero * scale.
struct CodeFormat {
  int64_t group = 32;  // elements: 16 or 32
  int zero = 0;        // the code that stands for 0
  bool has_min = false;
};
CodeFormat code_format(DType dtype);

// 16 rows: two AVX2 vectors or one of AVX-512 hold two columns of each. 768 columns: 24 KiB of
// words and up to 6 KiB of scales and offsets, so that the panel stays in a 32 KiB L1 while
// the activations stream past it. A multiple of 256, so blocks are not cut.
inline constexpr int64_t kPanelRows = 16;
inline constexpr int64_t kPanelDepth = 768;

// Codes less their format's zero. The words of four columns of 16 rows are columns 0 and 2 of each
// row, then 1 and 3, as codes in bytes widen.
struct WordPanel {
  alignas(64) int16_t words[kPanelRows * kPanelDepth];       // [depth / 4, 2, 16, 2]
  alignas(64) float scales[kPanelRows * kPanelDepth / 16];   // [depth / group, 16]
  alignas(64) float offsets[kPanelRows * kPanelDepth / 16];  // [depth / group, 16], of has_min
};

// Columns column .. column + depth - 1 of a row, or of as many rows from it on as a panel has.
// column and depth are whole blocks, of panels of rows whole panels.
struct WeightPart {
  const QuantizedMatrix& weight;
  int64_t row;
  int64_t column;
  int64_t depth;
};

// Codes [depth], scales and offsets [depth / group].
struct UnpackedCodes {
  uint8_t* codes;
  float* scales;
  float* offsets;
};

// kPanelRows rows; those past the last are zeros. depth <= kPanelDepth.
void unpack_words(const WeightPart& part, WordPanel& panel);

// One row.
void unpack_codes(const WeightPart& part, const UnpackedCodes& codes);

// One row. For plain types column and depth are free.
void unpack_floats(const WeightPart& part, float* floats);

}  // namespace ridge::backends::cpu
