// SPDX-License-Identifier: Apache-2.0
// The layouts of quantized blocks and their exact values in fp32. Those of GGUF's blocks follow the
// published format (little endian, scales as IEEE half bits); Q4_G32 and Q4_G128 hold the weights
// of GPTQ and AWQ. Quantization is in
// files/quantize.h; fast dequantization is in the kernels.
//
// q_i is the integer of element i. 32-element blocks keep elements 0..15 in the low nibbles of
// `quants` and 16..31 in the high nibbles. Super-blocks hold 256 elements in sub-blocks of 16 or
// 32, each with its own scale.
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

// x_i = scale * (q_i - 16); bit 4 of q_i is bit i of `high_bits` read as a 32-bit little-endian
// word.
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

// 16 sub-blocks of 16: x_i = scale * s * q_i - min * m, where s is the low and m the high nibble of
// scales[i / 16]. q_i has two bits: with half h = i / 128 and group g = i % 128 / 32,
// q_i = quants[32 h + i % 32] >> 2 g & 3.
struct BlockQ2_K {
  uint8_t scales[16];
  uint8_t quants[64];
  uint16_t scale;
  uint16_t min;
};

// 16 sub-blocks of 16: x_i = scale * s * q_i, where s = q3_k_scale(scales, i / 16) is in -32..31
// and q_i in -4..3. The low two bits are stored as in Q2_K; 4 is subtracted where bit i / 32 of
// high_bits[i % 32] is clear.
struct BlockQ3_K {
  uint8_t high_bits[32];
  uint8_t quants[64];
  uint8_t scales[12];
  uint16_t scale;
};

// 8 sub-blocks of 32: x_i = scale * s * q_i - min * m, where (s, m) = k_scale_min(scales, i / 32)
// have 6 bits each. The pair of sub-blocks p = i / 64 is stored in quants[32 p .. 32 p + 31]: its
// first 32 elements in the low nibbles, its last 32 in the high nibbles.
struct BlockQ4_K {
  uint16_t scale;
  uint16_t min;
  uint8_t scales[12];
  uint8_t quants[128];
};

// Like Q4_K, with bit 4 of q_i in bit i / 32 of high_bits[i % 32].
struct BlockQ5_K {
  uint16_t scale;
  uint16_t min;
  uint8_t scales[12];
  uint8_t high_bits[32];
  uint8_t quants[128];
};

// 16 sub-blocks of 16: x_i = scale * scales[i / 16] * (q_i - 32), where q_i has 6 bits. With half
// h = i / 128, group g = i % 128 / 32 and l = i % 32, the low 4 bits are nibble g / 2 of
// low_bits[64 h + 32 (g % 2) + l] and the high 2 bits are high_bits[32 h + l] >> 2 g & 3.
struct BlockQ6_K {
  uint8_t low_bits[128];
  uint8_t high_bits[64];
  int8_t scales[16];
  uint16_t scale;
};

// Groups of kGroup elements, each with a scale and an integer zero point from 0 to 16, as GPTQ, AWQ
// and compressed-tensors have them: x_i = scales[g] * (q_i - zeros[g]), q_i of 4 bits. Each 32
// elements are stored as in Q4_0. GGUF's Q4_1 cannot hold them: its min would be -scale * zero,
// which has up to 16 significant bits, and fp16 keeps 11.
struct BlockQ4_G32 {
  static constexpr int kElements = 64, kGroup = 32;
  uint16_t scales[2];
  uint8_t zeros[2];
  uint8_t quants[32];
};

struct BlockQ4_G128 {
  static constexpr int kElements = 128, kGroup = 128;
  uint16_t scales[1];
  uint8_t zeros[1];
  uint8_t unused[1];  // 0
  uint8_t quants[64];
};

static_assert(sizeof(BlockQ4_G32) == 38 && sizeof(BlockQ4_G128) == 68);
static_assert(sizeof(BlockQ4_0) == 18 && sizeof(BlockQ4_1) == 20);
static_assert(sizeof(BlockQ5_0) == 22 && sizeof(BlockQ5_1) == 24);
static_assert(sizeof(BlockQ8_0) == 34);
static_assert(sizeof(BlockQ2_K) == 84 && sizeof(BlockQ3_K) == 110);
static_assert(sizeof(BlockQ4_K) == 144 && sizeof(BlockQ5_K) == 176 && sizeof(BlockQ6_K) == 210);

// The elements of a block.
template <typename Block>
constexpr int block_elements() {
  if constexpr (requires { Block::kElements; })
    return Block::kElements;
  else
    return sizeof(Block) <= sizeof(BlockQ8_0) ? kBlockElements : kSuperBlockElements;
}

// Formats, and their tiles, with a zero point per group.
template <typename T>
concept HasZeros = requires(T blocks) {
  blocks.zeros;
};

struct ScaleMin {
  uint8_t scale;  // 0..63
  uint8_t min;    // 0..63
};

// Scale and min of sub-block s (0..7) from the 12 scale bytes of a Q4_K or Q5_K block, which are
// `stride` bytes apart. Bytes 0..3 hold scales 0..3 and bytes 4..7 hold mins 0..3, each in the low
// 6 bits. Bytes 8..11 hold the low 4 bits of scales 4..7 (low nibble) and of mins 4..7 (high
// nibble). The top two bits of scales 4..7 are those of bytes 0..3, and the top two bits of mins
// 4..7 are those of bytes 4..7.
inline ScaleMin k_scale_min(const uint8_t* packed, int s, int64_t stride = 1) {
  const auto byte = [&](int i) { return packed[i * stride]; };
  if (s < 4) return {static_cast<uint8_t>(byte(s) & 63), static_cast<uint8_t>(byte(s + 4) & 63)};
  return {static_cast<uint8_t>((byte(s + 4) & 15) | ((byte(s - 4) >> 6) << 4)),
          static_cast<uint8_t>((byte(s + 4) >> 4) | ((byte(s) >> 6) << 4))};
}

// Scale of sub-block s (0..15), in -32..31, from the 12 scale bytes of a Q3_K block. Bytes 0..7
// hold the low 4 bits of scales 0..7 (low nibble) and 8..15 (high nibble). The top two bits of
// scale s begin at bit 2 (s / 4) of byte 8 + s % 4.
inline int q3_k_scale(const uint8_t* packed, int s) {
  const int low = s < 8 ? packed[s] & 15 : packed[s - 8] >> 4;
  const int high = (packed[8 + s % 4] >> (2 * (s / 4))) & 3;
  return (low | (high << 4)) - 32;
}

// Checks that `bytes` is exactly the storage of `elements` elements of `dtype`; an InternalError
// otherwise.
void check_storage(DType dtype, size_t elements, std::span<const std::byte> bytes);

// Converts elements of any type except the repacked types (repacked_tiles.h) to float; integers are
// rounded to nearest, bool becomes 0 or 1. `bytes` may be unaligned and must be exactly the storage
// of out.size() elements (checked). The result equals the formulas above in fp32 bit for bit: every
// product is exact there, so only the last addition rounds.
void dequantize(DType dtype, std::span<const std::byte> bytes, std::span<float> out);

// FP8 as in the OCP 8-bit floating point specification: E4M3 has no infinity, E5M2 is IEEE-like.
float f8_e4m3_to_float(uint8_t bits);
float f8_e5m2_to_float(uint8_t bits);
// Rounded to nearest even; what is larger than 448 becomes 448. NaN stays NaN.
uint8_t float_to_f8_e4m3(float value);

}  // namespace base
}  // namespace ridge
