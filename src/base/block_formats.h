// SPDX-License-Identifier: Apache-2.0
// The bytes of GGUF's quantized blocks, and their exact meaning in fp32. Layouts follow the
// published GGUF format (little endian, scales as IEEE half bits). Quantizing is in
// files/quantize.h; fast forms are kernels.
//
// q_i is element i's integer. 32-element blocks keep elements 0..15 in the low nibbles of `quants`
// and 16..31 in the high nibbles. Super-blocks hold 256 elements in sub-blocks of 16 or 32 with
// scales of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"

namespace ridge {
inline namespace base {

inline constexpr int kBlockElements = 32;
inline constexpr int kSuperBlockElements = 256;

// x_i = scale * (q_i - 8), q_i of 4 bits.
struct BlockQ4_0 {
  uint16_t scale;
  uint8_t quants[16];
};

// x_i = scale * q_i + min, q_i of 4 bits.
struct BlockQ4_1 {
  uint16_t scale;
  uint16_t min;
  uint8_t quants[16];
};

// x_i = scale * (q_i - 16); bit 4 of q_i is bit i of
// `high_bits` read as a 32-bit little-endian word.
struct BlockQ5_0 {
  uint16_t scale;
  uint8_t high_bits[4];
  uint8_t quants[16];
};

// x_i = scale * q_i + min; bits as in Q5_0.
struct BlockQ5_1 {
  uint16_t scale;
  uint16_t min;
  uint8_t high_bits[4];
  uint8_t quants[16];
};

// x_i = scale * q_i.
struct BlockQ8_0 {
  uint16_t scale;
  int8_t quants[32];
};

// 16 sub-blocks of 16: x_i = scale * s * q_i - min * m, s the low and m the high nibble of scales[i
// / 16]. Two bits each: half h = i / 128, group g = i % 128 / 32: q_i = quants[32 h + i % 32] >> 2
// g & 3.
struct BlockQ2_K {
  uint8_t scales[16];
  uint8_t quants[64];
  uint16_t scale;
  uint16_t min;
};

// 16 sub-blocks of 16: x_i = scale * s * q_i, s = q3_k_scale(scales, i / 16) in -32..31, q_i in
// -4..3. The low two bits lie as in Q2_K; 4 is subtracted where bit i / 32 of high_bits[i % 32] is
// clear.
struct BlockQ3_K {
  uint8_t high_bits[32];
  uint8_t quants[64];
  uint8_t scales[12];
  uint16_t scale;
};

// 8 sub-blocks of 32: x_i = scale * s * q_i - min * m, (s, m) =
// k_scale_min(scales, i / 32), 6 bits each. Pair p = i / 64 lies in quants[32
// p .. 32 p + 31]: its first 32 elements low nibbles, its last high.
struct BlockQ4_K {
  uint16_t scale;
  uint16_t min;
  uint8_t scales[12];
  uint8_t quants[128];
};

// As Q4_K with bit 4 of q_i in bit i / 32 of high_bits[i % 32].
struct BlockQ5_K {
  uint16_t scale;
  uint16_t min;
  uint8_t scales[12];
  uint8_t high_bits[32];
  uint8_t quants[128];
};

// 16 sub-blocks of 16: x_i = scale * scales[i / 16] * (q_i - 32), q_i of 6 bits. Half h = i / 128,
// group g = i % 128 / 32, l = i % 32: the low 4 bits are nibble g / 2 of low_bits[64 h + 32 (g % 2)
// + l], the high 2 are high_bits[32 h + l] >> 2 g.
struct BlockQ6_K {
  uint8_t low_bits[128];
  uint8_t high_bits[64];
  int8_t scales[16];
  uint16_t scale;
};

static_assert(sizeof(BlockQ4_0) == 18 && sizeof(BlockQ4_1) == 20);
static_assert(sizeof(BlockQ5_0) == 22 && sizeof(BlockQ5_1) == 24);
static_assert(sizeof(BlockQ8_0) == 34);
static_assert(sizeof(BlockQ2_K) == 84 && sizeof(BlockQ3_K) == 110);
static_assert(sizeof(BlockQ4_K) == 144 && sizeof(BlockQ5_K) == 176 && sizeof(BlockQ6_K) == 210);

struct ScaleMin {
  uint8_t scale;  // 0..63
  uint8_t min;    // 0..63
};

// Sub-block s (0..7) of Q4_K's and Q5_K's 12 scale bytes, which lie `stride`
// apart. Bytes 0..3 hold scales 0..3 and bytes 4..7 mins 0..3 in their low 6
// bits; bytes 8..11 hold the low nibbles of scales (low) and mins (high)
// 4..7, whose top two bits are the top two bits of bytes 0..3 and 4..7.
inline ScaleMin k_scale_min(const uint8_t* packed, int s, int64_t stride = 1) {
  const auto byte = [&](int i) { return packed[i * stride]; };
  if (s < 4) return {static_cast<uint8_t>(byte(s) & 63), static_cast<uint8_t>(byte(s + 4) & 63)};
  return {static_cast<uint8_t>((byte(s + 4) & 15) | ((byte(s - 4) >> 6) << 4)),
          static_cast<uint8_t>((byte(s + 4) >> 4) | ((byte(s) >> 6) << 4))};
}

// Sub-block s (0..15) of Q3_K's 12 scale bytes, in -32..31. Bytes 0..7 hold the low nibbles of
// scales 0..7 (low) and 8..15 (high); the top two bits of scale s are bits 2 (s / 4) of byte 8 + s
// % 4.
inline int q3_k_scale(const uint8_t* packed, int s) {
  const int low = s < 8 ? packed[s] & 15 : packed[s - 8] >> 4;
  const int high = (packed[8 + s % 4] >> (2 * (s / 4))) & 3;
  return (low | (high << 4)) - 32;
}

// An internal error unless `bytes` are what so many elements of a dtype take.
void check_storage(DType dtype, size_t elements, std::span<const std::byte> bytes);

// Any element type to float; integers are rounded to nearest, bool is 0 or 1. `bytes` may be
// unaligned and must be exactly the storage of out.size() elements (checked). Bit for bit what the
// formulas above give in fp32: every product is exact there, so only the last addition rounds.
void dequantize(DType dtype, std::span<const std::byte> bytes, std::span<float> out);

// FP8 as in the OCP 8-bit floating point specification: E4M3 has no infinity, E5M2 is IEEE-like.
float f8_e4m3_to_float(uint8_t bits);
float f8_e5m2_to_float(uint8_t bits);

}  // namespace base
}  // namespace ridge
