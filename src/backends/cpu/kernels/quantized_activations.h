// SPDX-License-Identifier: Apache-2.0
// Activations rounded to 8 or 16 bits for products with quantized weights: their layout and the
// rounding. Not the products: quantized_matmul.h.
//
// Each row is cut into blocks of 32: x_i is about scale * q_i with scale = max |x| / 127 and q_i
// the nearest integer, -127..127. Beside the codes lie scale * (sum of q_i) of each block and each
// half block, which weights with an offset need: sum (s w_i + m) x_i = s scale sum w_i q_i + m
// scale sum q_i. A block that holds an infinity or a NaN has scale infinity or NaN, and so makes
// every product with it NaN.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/kernels/rows.h"

namespace ridge::backends::cpu {

inline constexpr int64_t kActivationBlock = 32;

// How much finer the second part's scale is.
inline constexpr int kPartRatio = 254;

// Rows of one buffer, each token's parts on their own and filled up to whole cache lines: codes
// int8 [in], then float scales [in / 32], sums [in / 32] and half_sums [in / 16]. `in` is a
// multiple of 32.
struct QuantizedActivations {
  int64_t tokens = 0;         // N
  int64_t in = 0;             // D
  std::byte* data = nullptr;  // [N, row_bytes()], aligned to 64 bytes
  int parts = 1;              // 1: 8 bits a number, 2: 16

  int64_t blocks() const { return in / kActivationBlock; }
  int64_t part_bytes() const { return (in + in / 2 + 63) / 64 * 64; }
  int64_t row_bytes() const { return parts * part_bytes(); }
  int64_t bytes() const { return tokens * row_bytes(); }
  int8_t* codes(int64_t n) const { return reinterpret_cast<int8_t*>(data + n * row_bytes()); }
  float* scales(int64_t n) const { return reinterpret_cast<float*>(data + n * row_bytes() + in); }
  float* sums(int64_t n) const { return scales(n) + blocks(); }
  float* half_sums(int64_t n) const { return scales(n) + 2 * blocks(); }

  // The same rows at part p: what codes(n) and the others give is that part's.
  QuantizedActivations part(int p) const { return {tokens, in, data + p * part_bytes(), parts}; }

  // Vectors of 8-bit codes: the tokens' parts, one token's after the other's.
  int64_t vectors() const { return tokens * parts; }
  int64_t token_of(int64_t vector) const { return parts == 1 ? vector : vector / 2; }
  int part_of(int64_t vector) const { return parts == 1 ? 0 : static_cast<int>(vector % 2); }
};

// Fills `out` from x [out.tokens, out.in]; T is float or uint16_t (bf16). Bound: memory, one read
// of x and 1.5 bytes an element written, or 3 of two parts.
template <typename T>
void quantize_activations(Rows<const T> x, const QuantizedActivations& out);

}  // namespace ridge::backends::cpu
