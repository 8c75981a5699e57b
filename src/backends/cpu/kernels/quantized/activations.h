// SPDX-License-Identifier: Apache-2.0
// Activations rounded to 16 or 8 bits for GEMMs with quantized weights: their layout and the
// rounding. matmul.h has the GEMMs.
//
// Each row is cut into blocks of 32: x_i is about scale * 2^e * q_i, with a scale per row, an
// exponent e from 0 to 40 for the block, and q_i the nearest integer. The block with the row's
// largest |x| has e = 40 and the largest quant; any other has the least e with which its quants do
// not exceed that. Powers of two cost up to one bit; for them, kernels multiply a weight's scale
// by a block's with an integer addition to its exponent, which leaves the ports of multiplications
// free. (Added to a weight's scale of zero, an exponent makes a number below 2^-86.) The GEMM
// path reads q as int16, up to 32258. The GEMV path may multiply int8 and read q in
// two parts, q_i = 254 c_i + d_i with c_i and d_i from -127 to 127, or in one part from -127 to
// 127. Each part stores, after its quants, 2^e as `scale` (254 times it in the first of two parts),
// and `scale` * (sum of quants) of each block and each half block, which weights with an offset
// need: sum (s w_i + m) x_i = row_scale (s scale sum w_i q_i + m scale sum q_i). Int16, and one
// part of int8, have the integer sums of quants too. A row with an infinity or a NaN has the scale
// NaN, so every GEMM with it yields NaN.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/kernels/strided_rows.h"

namespace ridge::backends::cpu {

inline constexpr int64_t kActivationBlock = 32;

// Kernels multiply fp32 as it is, int8, 16 bits as two parts of int8, int16, or tiles of
// bf16 (tiles.h).
enum class ActivationForm : uint8_t { kFloat32, kInt8, kTwoInt8, kInt16, kBf16Tiles };

// The largest exponent of a block, that of the block with the row's largest number.
inline constexpr int kMostExponent = 40;

// The bits of 1: those of a product with a power of two are the sum of both factors' bits, less
// these. An integer addition leaves the ports of multiplications to the GEMM.
inline constexpr int32_t kOneBits = 0x3f800000;

// The ratio of the first part's scale to the second part's.
inline constexpr int kPartRatio = 254;

// The rows of one buffer. Each part of a token is stored separately and padded to whole cache
// lines: quants int8 [in], then float scales [in / 32], sums [in / 32] and half_sums [in / 16], in
// one part int32 quant_sums [in / 32] and half_quant_sums [in / 16], and the row's scale. In int16,
// the quants are int16 [in] instead, with each four columns in the order 0, 2, 1, 3. `in` is a
// multiple of 32.
struct QuantizedActivations {
  int64_t tokens = 0;         // N
  int64_t in = 0;             // D
  std::byte* data = nullptr;  // [N, row_bytes()], aligned to 64 bytes
  ActivationForm form = ActivationForm::kTwoInt8;

  int64_t blocks() const { return in / kActivationBlock; }
  bool is_int16() const { return form == ActivationForm::kInt16; }
  int64_t quant_bytes() const { return is_int16() ? 2 * in : in; }
  int64_t quant_sum_bytes() const { return parts() == 1 ? 12 * blocks() : 0; }
  int64_t sum_bytes() const { return 16 * blocks() + quant_sum_bytes() + 4; }
  int64_t part_bytes() const { return (quant_bytes() + sum_bytes() + 63) / 64 * 64; }
  int parts() const { return form == ActivationForm::kTwoInt8 ? 2 : 1; }
  int64_t row_bytes() const { return parts() * part_bytes(); }
  int64_t bytes() const { return tokens * row_bytes(); }
  int8_t* int8_quants(int64_t n) const { return reinterpret_cast<int8_t*>(data + n * row_bytes()); }
  int16_t* int16_quants(int64_t n) const {
    return reinterpret_cast<int16_t*>(data + n * row_bytes());
  }
  float* scales(int64_t n) const {
    return reinterpret_cast<float*>(data + n * row_bytes() + quant_bytes());
  }
  float* sums(int64_t n) const { return scales(n) + blocks(); }
  float* half_sums(int64_t n) const { return scales(n) + 2 * blocks(); }
  int32_t* quant_sums(int64_t n) const {
    return reinterpret_cast<int32_t*>(scales(n) + 4 * blocks());
  }
  int32_t* half_quant_sums(int64_t n) const { return quant_sums(n) + blocks(); }
  float& row_scale(int64_t n) const { return scales(n)[4 * blocks() + quant_sum_bytes() / 4]; }

  // The same rows for part p: int8_quants(n) and the other accessors return that part's data.
  QuantizedActivations part(int p) const { return {tokens, in, data + p * part_bytes(), form}; }

  // Vectors of 8-bit quants: all parts of all tokens, token by token.
  int64_t vectors() const { return tokens * parts(); }
  int64_t token_of(int64_t vector) const { return vector / parts(); }
  int part_of(int64_t vector) const { return static_cast<int>(vector % parts()); }
};

// Fills `out` from x [out.tokens, out.in]. Bound: memory, one read of x and 2.88 bytes per element
// written, 3 in two parts, 1.88 in one part of int8.
void quantize_activations(StridedRows<const float> x, const QuantizedActivations& out);

}  // namespace ridge::backends::cpu
