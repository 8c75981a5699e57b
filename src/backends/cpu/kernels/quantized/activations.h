// SPDX-License-Identifier: Apache-2.0
// Activations rounded to 16 or 8 bits for GEMMs with quantized weights: their layout and the
// rounding. matmul.h has the GEMMs.
//
// Each row is cut into blocks of 32: x_i is about unit * q_i with unit = max |x| / 32258 and q_i
// the nearest integer. GEMMs of many tokens read q as 16-bit words. GEMMs of few tokens may
// multiply bytes and read q in two parts, q_i = 254 c_i + d_i with c_i and d_i from -127 to 127, or in one
// part, where unit = max |x| / 127 and q_i is from -127 to 127. Each part stores, after its codes,
// its unit as `scale`, and scale * (sum of codes) of each block and each half block, which weights
// with an offset need: sum (s w_i + m) x_i = s scale sum w_i q_i + m scale sum q_i. Words also store
// the integer sums of their half blocks. A block with an infinity or a NaN has scale infinity or
// NaN, so every GEMM with it yields NaN.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/kernels/strided_rows.h"

namespace ridge::backends::cpu {

inline constexpr int64_t kActivationBlock = 32;
inline constexpr int64_t kCodeSumColumns = kActivationBlock / 2;

// The code of an element: 8 bits, 16 bits in two parts of 8, or 16 bits.
enum class Codes { kByte, kTwoBytes, kWord };

// The ratio of the first part's scale to the second part's.
inline constexpr int kPartRatio = 254;

// The rows of one buffer. Each part of a token is stored separately and padded to whole cache
// lines: codes int8 [in], then float scales [in / 32], sums [in / 32] and half_sums [in / 16].
// Words are int16 [in] in place of the codes, with each four columns in the order 0, 2, 1, 3, and
// int32 code_sums [in / 16] follow the other sums. `in` is a multiple of 32.
struct QuantizedActivations {
  int64_t tokens = 0;         // N
  int64_t in = 0;             // D
  std::byte* data = nullptr;  // [N, row_bytes()], aligned to 64 bytes
  Codes form = Codes::kTwoBytes;

  int64_t blocks() const { return in / kActivationBlock; }
  bool in_words() const { return form == Codes::kWord; }
  int64_t code_bytes() const { return in_words() ? 2 * in : in; }
  int64_t sum_bytes() const { return in / 2 + (in_words() ? in / 4 : 0); }
  int64_t part_bytes() const { return (code_bytes() + sum_bytes() + 63) / 64 * 64; }
  int parts() const { return form == Codes::kTwoBytes ? 2 : 1; }
  int64_t row_bytes() const { return parts() * part_bytes(); }
  int64_t bytes() const { return tokens * row_bytes(); }
  int8_t* codes(int64_t n) const { return reinterpret_cast<int8_t*>(data + n * row_bytes()); }
  int16_t* words(int64_t n) const { return reinterpret_cast<int16_t*>(data + n * row_bytes()); }
  float* scales(int64_t n) const {
    return reinterpret_cast<float*>(data + n * row_bytes() + code_bytes());
  }
  float* sums(int64_t n) const { return scales(n) + blocks(); }
  float* half_sums(int64_t n) const { return scales(n) + 2 * blocks(); }
  int32_t* code_sums(int64_t n) const {
    return reinterpret_cast<int32_t*>(scales(n) + 4 * blocks());
  }

  // The same rows for part p: codes(n) and the other accessors return that part's data.
  QuantizedActivations part(int p) const { return {tokens, in, data + p * part_bytes(), form}; }

  // Vectors of 8-bit codes: all parts of all tokens, token by token.
  int64_t vectors() const { return tokens * parts(); }
  int64_t token_of(int64_t vector) const { return vector / parts(); }
  int part_of(int64_t vector) const { return static_cast<int>(vector % parts()); }
};

// Fills `out` from x [out.tokens, out.in]. Bound: memory, one read of x and 2.5 bytes per element
// written, 3 in two parts.
void quantize_activations(StridedRows<const float> x, const QuantizedActivations& out);

}  // namespace ridge::backends::cpu
