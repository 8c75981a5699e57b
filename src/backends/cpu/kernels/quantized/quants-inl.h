// SPDX-License-Identifier: Apache-2.0
// Per-target: unpacks a block of any format to floats, or to unsigned 8-bit quants with a
// scale and an offset per group, x_i = scale[g] * quant_i + offset[g] (dequantize's value, except
// for the last rounding). These are plain loops that the compiler vectorizes for each target; the
// inner loops of the GEMMs unpack in other ways.
#include <hwy/highway.h>

#include <bit>
#include <cstdint>
#include <cstring>

#include "backends/cpu/kernels/quantized/unpack.h"
#include "base/block_formats.h"

#if defined(RIDGE_CPU_QUANTIZED_QUANTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RIDGE_CPU_QUANTIZED_QUANTS_INL_H_
#undef RIDGE_CPU_QUANTIZED_QUANTS_INL_H_
#else
#define RIDGE_CPU_QUANTIZED_QUANTS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// A multiplication rebiases a half's exponent, which is also right for subnormals; infinity and NaN
// get the float's largest exponent.
HWY_INLINE float half_to_float(uint16_t bits) {
  const uint32_t magnitude = static_cast<uint32_t>(bits & 0x7fff) << 13;
  const float scaled = std::bit_cast<float>(magnitude) * 0x1p112f;
  const uint32_t special = (bits & 0x7c00) == 0x7c00 ? 0x7f800000u | magnitude : 0u;
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(scaled) | special | sign);
}

using Bytes = HWY_CAPPED(uint8_t, 16);

HWY_INLINE void split_nibbles(const uint8_t* packed, int count, uint8_t* low, uint8_t* high) {
  const Bytes d;
  for (int i = 0; i < count; i += static_cast<int>(hn::Lanes(d))) {
    const auto both = hn::LoadU(d, packed + i);
    hn::StoreU(hn::And(both, hn::Set(d, uint8_t{15})), d, low + i);
    hn::StoreU(hn::ShiftRight<4>(both), d, high + i);
  }
}

// Adds 16 where the element's bit is set, eight elements at once: the multiplication copies eight
// bits to each of eight bytes, of which byte i keeps bit i; adding 127 carries it to the top bit.
HWY_INLINE void add_fifth_bits(const uint8_t* high_bits, uint8_t* quants) {
  for (int i = 0; i < 4; ++i) {
    uint64_t eight;
    std::memcpy(&eight, quants + 8 * i, 8);
    const uint64_t kept = (high_bits[i] * 0x0101010101010101u) & 0x8040201008040201u;
    eight |= ((kept + 0x7f7f7f7f7f7f7f7fu) & 0x8080808080808080u) >> 3;
    std::memcpy(quants + 8 * i, &eight, 8);
  }
}

// The quant of the value 0 in formats without mins.
template <typename Block>
constexpr float kZeroQuant = 0;
template <>
inline constexpr float kZeroQuant<BlockQ4_0> = 8;
template <>
inline constexpr float kZeroQuant<BlockQ5_0> = 16;

// For the formats of 32 elements in nibbles: Q4_0, Q4_1, Q5_0 and Q5_1.
template <typename Block>
HWY_INLINE void unpack_quants(const Block& block, const UnpackedQuants& to) {
  split_nibbles(block.quants, 16, to.quants, to.quants + 16);
  if constexpr (requires { block.high_bits; }) add_fifth_bits(block.high_bits, to.quants);
  to.scales[0] = half_to_float(block.scale);
  if constexpr (requires { block.min; })
    to.offsets[0] = half_to_float(block.min);
  else
    to.offsets[0] = -kZeroQuant<Block> * to.scales[0];
}

HWY_INLINE void unpack_quants(const BlockQ8_0& block, const UnpackedQuants& to) {
  for (int i = 0; i < 32; ++i) to.quants[i] = static_cast<uint8_t>(block.quants[i] ^ -128);
  to.scales[0] = half_to_float(block.scale);
  to.offsets[0] = -128.0f * to.scales[0];
}

HWY_INLINE void split_two_bits(const uint8_t* packed, uint8_t* quants) {
  for (int half = 0; half < 2; ++half) {
    for (int group = 0; group < 4; ++group) {
      uint8_t* to = quants + 128 * half + 32 * group;
      for (int i = 0; i < 32; ++i) to[i] = (packed[32 * half + i] >> (2 * group)) & 3;
    }
  }
}

HWY_INLINE void unpack_quants(const BlockQ2_K& block, const UnpackedQuants& to) {
  split_two_bits(block.quants, to.quants);
  const float d = half_to_float(block.scale), m = half_to_float(block.min);
  for (int g = 0; g < 16; ++g) {
    to.scales[g] = d * static_cast<float>(block.scales[g] & 15);
    to.offsets[g] = -m * static_cast<float>(block.scales[g] >> 4);
  }
}

// Sets bit `shift` of 256 quants: the g-th 32 quants take bit g of each of 32 bytes.
HWY_INLINE void add_high_bits(const uint8_t* high_bits, int shift, uint8_t* quants) {
  for (int g = 0; g < 8; ++g) {
    for (int i = 0; i < 32; ++i) {
      quants[32 * g + i] =
          static_cast<uint8_t>(quants[32 * g + i] | (((high_bits[i] >> g) & 1) << shift));
    }
  }
}

HWY_INLINE void unpack_quants(const BlockQ3_K& block, const UnpackedQuants& to) {
  split_two_bits(block.quants, to.quants);
  add_high_bits(block.high_bits, 2, to.quants);
  const float d = half_to_float(block.scale);
  for (int g = 0; g < 16; ++g) {
    to.scales[g] = d * static_cast<float>(q3_k_scale(block.scales, g));
    to.offsets[g] = -4.0f * to.scales[g];
  }
}

// For Q4_K and Q5_K.
template <typename Block>
HWY_INLINE void unpack_k_nibbles(const Block& block, const UnpackedQuants& to) {
  for (int pair = 0; pair < 4; ++pair) {
    uint8_t* low = to.quants + 64 * pair;
    split_nibbles(block.quants + 32 * pair, 32, low, low + 32);
  }
  if constexpr (requires { block.high_bits; }) add_high_bits(block.high_bits, 4, to.quants);
  const float d = half_to_float(block.scale), m = half_to_float(block.min);
  for (int g = 0; g < 8; ++g) {
    const ScaleMin sub = k_scale_min(block.scales, g);
    to.scales[g] = d * static_cast<float>(sub.scale);
    to.offsets[g] = -m * static_cast<float>(sub.min);
  }
}

HWY_INLINE void unpack_quants(const BlockQ4_K& block, const UnpackedQuants& to) {
  unpack_k_nibbles(block, to);
}
HWY_INLINE void unpack_quants(const BlockQ5_K& block, const UnpackedQuants& to) {
  unpack_k_nibbles(block, to);
}

HWY_INLINE void unpack_quants(const BlockQ6_K& block, const UnpackedQuants& out) {
  for (int half = 0; half < 2; ++half) {
    uint8_t* to = out.quants + 128 * half;
    split_nibbles(block.low_bits + 64 * half, 64, to, to + 64);
    for (int group = 0; group < 4; ++group) {
      for (int i = 0; i < 32; ++i) {
        const int high = (block.high_bits[32 * half + i] >> (2 * group)) & 3;
        to[32 * group + i] = static_cast<uint8_t>(to[32 * group + i] | (high << 4));
      }
    }
  }
  const float d = half_to_float(block.scale);
  for (int g = 0; g < 16; ++g) {
    out.scales[g] = d * static_cast<float>(block.scales[g]);
    out.offsets[g] = -32.0f * out.scales[g];
  }
}

// For Q4_G32 and Q4_G128.
template <HasZeros Block>
HWY_INLINE void unpack_quants(const Block& block, const UnpackedQuants& to) {
  for (int part = 0; part < Block::kElements / 32; ++part) {
    uint8_t* quants = to.quants + 32 * part;
    split_nibbles(block.quants + 16 * part, 16, quants, quants + 16);
    const int group = 32 * part / Block::kGroup;
    to.scales[part] = half_to_float(block.scales[group]);
    to.offsets[part] = -to.scales[part] * static_cast<float>(block.zeros[group]);
  }
}

// Calls body(Block()) with the block type of `dtype`; nothing for a plain type.
template <typename Body>
HWY_INLINE void with_block(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::kQ4_0:
      return body(BlockQ4_0());
    case DType::kQ4_1:
      return body(BlockQ4_1());
    case DType::kQ5_0:
      return body(BlockQ5_0());
    case DType::kQ5_1:
      return body(BlockQ5_1());
    case DType::kQ8_0:
      return body(BlockQ8_0());
    case DType::kQ2_K:
      return body(BlockQ2_K());
    case DType::kQ3_K:
      return body(BlockQ3_K());
    case DType::kQ4_K:
      return body(BlockQ4_K());
    case DType::kQ5_K:
      return body(BlockQ5_K());
    case DType::kQ6_K:
      return body(BlockQ6_K());
    case DType::kQ4_G32:
      return body(BlockQ4_G32());
    case DType::kQ4_G128:
      return body(BlockQ4_G128());
    default:
      return;
  }
}

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
