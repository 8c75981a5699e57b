// SPDX-License-Identifier: Apache-2.0
// Unpacks quantized weights to the forms that GEMMs multiply: 8-bit quants with a scale and an
// offset per group, 16 interleaved rows, or floats. Shared by the GEMMs; callers of kernels include
// matmul.h.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/quantized/matmul.h"
#include "base/dtype.h"

namespace ridge::backends::cpu {

// A format as quants: x_i = scale * quant_i + offset, with a scale and an offset per group. Without
// a min, offset is -zero * scale.
struct QuantFormat {
  int64_t group = 32;    // elements: 16 or 32
  int most = 0;          // the largest quant
  int zero = 0;          // the quant of the value 0
  bool has_min = false;  // or a zero point per group, whose offset is -zero point * scale
};
QuantFormat quant_format(DType dtype);

// 16 rows: two AVX2 vectors or one AVX-512 vector hold two columns of each row. 768 columns: 24 KiB
// of int16 and up to 6 KiB of scales and offsets, so that they stay in a 32 KiB L1 while the
// activations stream through. A multiple of 256, so that no block is cut.
inline constexpr int64_t kRowBlockRows = 16;
inline constexpr int64_t kRowBlockDepth = 768;

// In int16: quants minus their format's zero. For every four columns, they hold columns 0 and 2
// of each of the 16 rows, then columns 1 and 3: the order that widening of int8 yields. In uint8:
// the quants themselves.
struct UnpackedRows {
  union {
    alignas(64) int16_t int16_quants[kRowBlockRows * kRowBlockDepth];  // [depth / 4, 2, 16, 2]
    alignas(64) uint8_t uint8_quants[kRowBlockRows * kRowBlockDepth];  // [depth / 4, 16, 4]
  };
  alignas(64) float scales[kRowBlockRows * kRowBlockDepth / 16];   // [depth / group, 16]
  alignas(64) float offsets[kRowBlockRows * kRowBlockDepth / 16];  // if has_min
  // 0, or NaN in a row of which a scale is not finite: where a power of two is added to a scale's
  // exponent, sums begin with it, for the addition makes a number of an infinity.
  alignas(64) float zero_or_nan[kRowBlockRows];
};

// Columns column .. column + depth - 1 of a row, or of a row block from that row on. column and
// depth are whole blocks, or whole tiles if the weight is repacked.
struct WeightPart {
  const QuantizedMatrix& weight;
  int64_t row;
  int64_t column;
  int64_t depth;
};

// Quants [depth], scales and offsets [depth / group].
struct UnpackedQuants {
  uint8_t* quants;
  float* scales;
  float* offsets;
};

// Unpacks kRowBlockRows rows of blocks; those past the last are zeros. depth <= kRowBlockDepth.
void unpack_int16(const WeightPart& part, UnpackedRows& rows);
void unpack_int8(const WeightPart& part, UnpackedRows& rows);

// Unpacks one row.
void unpack_quants(const WeightPart& part, const UnpackedQuants& quants);

// Unpacks one row. For plain types, column and depth may have any value.
void unpack_floats(const WeightPart& part, float* floats);

}  // namespace ridge::backends::cpu
