// SPDX-License-Identifier: Apache-2.0
// Decodes one element at a time with the formulas of block_formats.h. Written to be compared with
// that header, not to be fast.
#include "base/block_formats.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/bf16.h"
#include "base/error.h"

namespace ridge {
inline namespace base {
namespace {

int low_nibble(uint8_t byte) { return byte & 15; }
int high_nibble(uint8_t byte) { return byte >> 4; }

int nibble(const uint8_t* quants, int i) {
  return i < 16 ? low_nibble(quants[i]) : high_nibble(quants[i - 16]);
}

// The integer of an element of 4 or 5 bits.
template <typename Block>
int quant(const Block& block, int i) {
  int q = nibble(block.quants, i);
  if constexpr (requires { block.high_bits; }) q |= ((block.high_bits[i / 8] >> (i % 8)) & 1) << 4;
  return q;
}

// Half of the integers that a block without a min has.
template <typename Block>
constexpr int kLevels = std::is_same_v<Block, BlockQ4_0> ? 8 : 16;

int two_bits(const uint8_t* quants, int i) {
  return (quants[i / 128 * 32 + i % 32] >> (2 * (i % 128 / 32))) & 3;
}

int nibble_of_pair(const uint8_t* quants, int i) {
  const uint8_t byte = quants[i / 64 * 32 + i % 32];
  return i % 64 < 32 ? low_nibble(byte) : high_nibble(byte);
}

// Q4_0 and Q5_0.
template <typename Block>
void decode(const Block& block, float* out) {
  const float scale = f16_to_float(block.scale);
  for (int i = 0; i < kBlockElements; ++i)
    out[i] = scale * static_cast<float>(quant(block, i) - kLevels<Block>);
}

// Q4_1 and Q5_1.
template <typename Block>
requires requires(Block block) { block.min; }
void decode(const Block& block, float* out) {
  const float scale = f16_to_float(block.scale), min = f16_to_float(block.min);
  for (int i = 0; i < kBlockElements; ++i)
    out[i] = scale * static_cast<float>(quant(block, i)) + min;
}

void decode(const BlockQ8_0& block, float* out) {
  const float scale = f16_to_float(block.scale);
  for (int i = 0; i < kBlockElements; ++i) out[i] = scale * static_cast<float>(block.quants[i]);
}

void decode(const BlockQ2_K& block, float* out) {
  const float scale = f16_to_float(block.scale), min = f16_to_float(block.min);
  for (int i = 0; i < kSuperBlockElements; ++i) {
    const uint8_t packed = block.scales[i / 16];
    out[i] = scale * static_cast<float>(low_nibble(packed)) *
                 static_cast<float>(two_bits(block.quants, i)) -
             min * static_cast<float>(high_nibble(packed));
  }
}

void decode(const BlockQ3_K& block, float* out) {
  const float scale = f16_to_float(block.scale);
  for (int i = 0; i < kSuperBlockElements; ++i) {
    const bool high = (block.high_bits[i % 32] >> (i / 32)) & 1;
    const int q = two_bits(block.quants, i) - (high ? 0 : 4);
    out[i] = scale * static_cast<float>(q3_k_scale(block.scales, i / 16)) * static_cast<float>(q);
  }
}

// Q4_K and Q5_K.
template <typename Block>
void decode_pairs(const Block& block, float* out) {
  const float scale = f16_to_float(block.scale), min = f16_to_float(block.min);
  for (int i = 0; i < kSuperBlockElements; ++i) {
    const ScaleMin sub = k_scale_min(block.scales, i / 32);
    int q = nibble_of_pair(block.quants, i);
    if constexpr (requires { block.high_bits; })
      q |= ((block.high_bits[i % 32] >> (i / 32)) & 1) << 4;
    out[i] = scale * static_cast<float>(sub.scale) * static_cast<float>(q) -
             min * static_cast<float>(sub.min);
  }
}
void decode(const BlockQ4_K& block, float* out) { decode_pairs(block, out); }
void decode(const BlockQ5_K& block, float* out) { decode_pairs(block, out); }

void decode(const BlockQ6_K& block, float* out) {
  const float scale = f16_to_float(block.scale);
  for (int i = 0; i < kSuperBlockElements; ++i) {
    const int half = i / 128, group = i % 128 / 32, l = i % 32;
    const uint8_t byte = block.low_bits[64 * half + 32 * (group % 2) + l];
    const int low = group < 2 ? low_nibble(byte) : high_nibble(byte);
    const int high = (block.high_bits[32 * half + l] >> (2 * group)) & 3;
    out[i] = scale * static_cast<float>(block.scales[i / 16]) *
             static_cast<float>((low | (high << 4)) - 32);
  }
}

// Q4_G32 and Q4_G128.
template <HasZeros Block>
void decode(const Block& block, float* out) {
  for (int i = 0; i < Block::kElements; ++i) {
    const int group = i / Block::kGroup, q = nibble(block.quants + i / 32 * 16, i % 32);
    out[i] = f16_to_float(block.scales[group]) * static_cast<float>(q - block.zeros[group]);
  }
}

// Copies each block first, because a mapped file guarantees no alignment.
template <typename Block>
void decode_blocks(std::span<const std::byte> bytes, std::span<float> out) {
  const size_t blocks = bytes.size() / sizeof(Block);
  if (blocks == 0) return;
  const size_t elements = out.size() / blocks;
  for (size_t b = 0; b < blocks; ++b) {
    Block block;
    std::memcpy(&block, bytes.data() + b * sizeof(Block), sizeof(Block));
    decode(block, out.data() + b * elements);
  }
}

template <typename T, typename Convert>
void decode_plain(std::span<const std::byte> bytes, std::span<float> out, Convert convert) {
  for (size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    out[i] = convert(value);
  }
}

template <typename T>
void cast_plain(std::span<const std::byte> bytes, std::span<float> out) {
  decode_plain<T>(bytes, out, [](T value) { return static_cast<float>(value); });
}

}  // namespace

float f8_e4m3_to_float(uint8_t bits) {
  const int exponent = (bits >> 3) & 15, mantissa = bits & 7;
  const float sign = bits & 0x80 ? -1.0f : 1.0f;
  if (exponent == 15 && mantissa == 7) return std::numeric_limits<float>::quiet_NaN();
  if (exponent == 0) return sign * static_cast<float>(mantissa) * 0x1p-9f;
  const uint32_t wide = static_cast<uint32_t>((exponent + 120) << 23 | mantissa << 20);
  return sign * std::bit_cast<float>(wide);
}

uint8_t float_to_f8_e4m3(float value) {
  constexpr uint32_t kNan = 0x7f, kLargest = 0x7e;
  const uint32_t bits = std::bit_cast<uint32_t>(value), own = bits & 0x7fffffffu;
  const uint32_t sign = bits >> 24 & 0x80u;
  if (std::isnan(value)) return static_cast<uint8_t>(sign | kNan);
  // Above 2^-6 the exponent is that of fp32 less 120; below, numbers are multiples of 2^-9.
  const uint32_t code = std::abs(value) >= 0x1p-6f
                            ? ((own + 0x7ffffu + (own >> 20 & 1u)) >> 20) - (120u << 3)
                            : static_cast<uint32_t>(std::nearbyint(std::abs(value) * 0x1p9f));
  return static_cast<uint8_t>(sign | std::min(code, kLargest));
}

// E5M2 has five exponent bits and half's bias, so it equals the half whose upper byte it is.
float f8_e5m2_to_float(uint8_t bits) { return f16_to_float(static_cast<uint16_t>(bits << 8)); }

void check_storage(DType dtype, size_t elements, std::span<const std::byte> bytes) {
  const int64_t expected_bytes = storage_bytes(dtype, static_cast<int64_t>(elements));
  RIDGE_CHECK(static_cast<int64_t>(bytes.size()) == expected_bytes,
              "{} elements of {} are {} bytes, got {}", elements, name(dtype), expected_bytes,
              bytes.size());
}

void dequantize(DType dtype, std::span<const std::byte> bytes, std::span<float> out) {
  check_storage(dtype, out.size(), bytes);
  switch (dtype) {
    case DType::kF32:
      return cast_plain<float>(bytes, out);
    case DType::kF64:
      return cast_plain<double>(bytes, out);
    case DType::kF16:
      return decode_plain<uint16_t>(bytes, out, f16_to_float);
    case DType::kBF16:
      return decode_plain<uint16_t>(bytes, out, bf16_to_float);
    case DType::kF8E4M3:
      return decode_plain<uint8_t>(bytes, out, f8_e4m3_to_float);
    case DType::kF8E5M2:
      return decode_plain<uint8_t>(bytes, out, f8_e5m2_to_float);
    case DType::kI8:
      return cast_plain<int8_t>(bytes, out);
    case DType::kI16:
      return cast_plain<int16_t>(bytes, out);
    case DType::kI32:
      return cast_plain<int32_t>(bytes, out);
    case DType::kI64:
      return cast_plain<int64_t>(bytes, out);
    case DType::kU8:
      return cast_plain<uint8_t>(bytes, out);
    case DType::kU16:
      return cast_plain<uint16_t>(bytes, out);
    case DType::kU32:
      return cast_plain<uint32_t>(bytes, out);
    case DType::kU64:
      return cast_plain<uint64_t>(bytes, out);
    case DType::kBool:
      return decode_plain<uint8_t>(bytes, out,
                                   [](uint8_t value) { return value != 0 ? 1.0f : 0.0f; });
    case DType::kQ4_0:
      return decode_blocks<BlockQ4_0>(bytes, out);
    case DType::kQ4_1:
      return decode_blocks<BlockQ4_1>(bytes, out);
    case DType::kQ5_0:
      return decode_blocks<BlockQ5_0>(bytes, out);
    case DType::kQ5_1:
      return decode_blocks<BlockQ5_1>(bytes, out);
    case DType::kQ8_0:
      return decode_blocks<BlockQ8_0>(bytes, out);
    case DType::kQ2_K:
      return decode_blocks<BlockQ2_K>(bytes, out);
    case DType::kQ3_K:
      return decode_blocks<BlockQ3_K>(bytes, out);
    case DType::kQ4_K:
      return decode_blocks<BlockQ4_K>(bytes, out);
    case DType::kQ5_K:
      return decode_blocks<BlockQ5_K>(bytes, out);
    case DType::kQ6_K:
      return decode_blocks<BlockQ6_K>(bytes, out);
    case DType::kQ4_G32:
      return decode_blocks<BlockQ4_G32>(bytes, out);
    case DType::kQ4_G128:
      return decode_blocks<BlockQ4_G128>(bytes, out);
    case DType::kQ4_0x16:
    case DType::kQ4_1x16:
    case DType::kQ5_0x16:
    case DType::kQ8_0x16:
    case DType::kQ4_Kx16:
    case DType::kQ6_Kx16:
    case DType::kQ4_G32x16:
    case DType::kQ4_G128x16:
    case DType::kQ4_0x8:
    case DType::kQ4_1x8:
    case DType::kQ5_0x8:
    case DType::kQ5_1x8:
    case DType::kQ8_0x8:
    case DType::kQ4_Kx8:
    case DType::kQ5_Kx8:
    case DType::kQ6_Kx8:
    case DType::kQ4_G32x8:
    case DType::kQ4_G128x8:
      break;  // tiles interleave the elements of rows: repacked_tiles.h, fragment_tiles.h
  }
  RIDGE_CHECK(false, "unknown dtype {}", static_cast<int>(dtype));
}

}  // namespace base
}  // namespace ridge
