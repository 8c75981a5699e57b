// SPDX-License-Identifier: Apache-2.0
// Encodes values as blocks: the simple types by the format's rule, the K types by packing the
// results of the search in k_quants.h.
#include "files/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/bf16.h"
#include "base/block_formats.h"
#include "base/error.h"
#include "files/k_quants.h"

namespace ridge::files {
namespace {

constexpr uint16_t kHalfInfinity = 0x7c00;
// Above the range of any block type (Q6_K: 65504 x 128 x 32 = 2.7e8), and keeps the sums of the
// searches far from overflow.
constexpr float kMaxMagnitude = 1e9f;

bool is_finite_half(uint16_t bits) { return (bits & kHalfInfinity) != kHalfInfinity; }

// 1 / scale, or 0 if the scale is too small to divide by; half precision rounds such a scale to 0
// anyway.
float inverse(float scale) {
  const float result = 1 / scale;
  return std::isfinite(result) ? result : 0;
}

int quant(float steps, int max) { return std::clamp(static_cast<int>(steps), 0, max); }

// Stores the integer of an element of 4 or 5 bits.
template <typename Block>
void set_quant(Block& block, int i, int q) {
  block.quants[i % 16] |= static_cast<uint8_t>(i < 16 ? q & 15 : (q & 15) << 4);
  if constexpr (requires { block.high_bits; })
    block.high_bits[i / 8] |= static_cast<uint8_t>((q >> 4) << (i % 8));
}

// The scale that maps the value of largest magnitude to the lowest integer, -levels.
float symmetric_scale(const float* x, int levels) {
  float peak = 0;
  for (int i = 0; i < kBlockElements; ++i)
    if (std::fabs(x[i]) > std::fabs(peak)) peak = x[i];
  return peak / static_cast<float>(-levels);
}

// Q4_0 and Q5_0, whose integers lie in [0, 2 levels).
template <typename Block>
void encode_symmetric(const float* x, int levels, Block& block) {
  const float scale = symmetric_scale(x, levels), steps = inverse(scale);
  block.scale = float_to_f16(scale);
  for (int i = 0; i < kBlockElements; ++i)
    set_quant(block, i, quant(x[i] * steps + (static_cast<float>(levels) + 0.5f), 2 * levels - 1));
}
void encode(const float* x, BlockQ4_0& block) { encode_symmetric(x, 8, block); }
void encode(const float* x, BlockQ5_0& block) { encode_symmetric(x, 16, block); }

// Q4_1 and Q5_1.
template <typename Block>
void encode_with_min(const float* x, int most, Block& block) {
  const auto [low, high] = std::minmax_element(x, x + kBlockElements);
  const float scale = (*high - *low) / static_cast<float>(most), steps = inverse(scale);
  block.scale = float_to_f16(scale);
  block.min = float_to_f16(*low);
  for (int i = 0; i < kBlockElements; ++i)
    set_quant(block, i, quant((x[i] - *low) * steps + 0.5f, most));
}
void encode(const float* x, BlockQ4_1& block) { encode_with_min(x, 15, block); }
void encode(const float* x, BlockQ5_1& block) { encode_with_min(x, 31, block); }

void encode(const float* x, BlockQ8_0& block) {
  const float scale = std::fabs(symmetric_scale(x, 1)) / 127, steps = inverse(scale);
  block.scale = float_to_f16(scale);
  for (int i = 0; i < kBlockElements; ++i)
    block.quants[i] = static_cast<int8_t>(std::round(x[i] * steps));
}

void set_two_bits(uint8_t* quants, int i, int q) {
  quants[i / 128 * 32 + i % 32] |= static_cast<uint8_t>((q & 3) << (2 * (i % 128 / 32)));
}

void set_nibble_of_pair(uint8_t* quants, int i, int q) {
  quants[i / 64 * 32 + i % 32] |= static_cast<uint8_t>(i % 64 < 32 ? q & 15 : (q & 15) << 4);
}

void encode(const float* x, BlockQ2_K& block) {
  const AffineFit fit = fit_affine(x, {16, 3, 15});
  block.scale = fit.scale;
  block.min = fit.min;
  for (int s = 0; s < 16; ++s)
    block.scales[s] = static_cast<uint8_t>(fit.scales[s] | (fit.mins[s] << 4));
  for (int i = 0; i < kSuperBlockElements; ++i) set_two_bits(block.quants, i, fit.quants[i]);
}

// The inverse of q3_k_scale.
void pack_q3_k_scales(const std::array<int8_t, 16>& scales, uint8_t* packed) {
  for (int s = 0; s < 16; ++s) {
    const int value = scales[s] + 32;
    packed[s % 8] |= static_cast<uint8_t>(s < 8 ? value & 15 : (value & 15) << 4);
    packed[8 + s % 4] |= static_cast<uint8_t>((value >> 4) << (2 * (s / 4)));
  }
}

void encode(const float* x, BlockQ3_K& block) {
  const SymmetricFit fit = fit_symmetric(x, {4, 32});
  block.scale = fit.scale;
  pack_q3_k_scales(fit.scales, block.scales);
  for (int i = 0; i < kSuperBlockElements; ++i) {
    const int q = fit.quants[i] + 4;
    set_two_bits(block.quants, i, q);
    block.high_bits[i % 32] |= static_cast<uint8_t>((q >> 2) << (i / 32));
  }
}

// The inverse of k_scale_min.
void pack_k_scales(const AffineFit& fit, uint8_t* packed) {
  for (int s = 0; s < 4; ++s) {
    const int scale = fit.scales[s + 4], min = fit.mins[s + 4];
    packed[s] = static_cast<uint8_t>(fit.scales[s] | ((scale >> 4) << 6));
    packed[s + 4] = static_cast<uint8_t>(fit.mins[s] | ((min >> 4) << 6));
    packed[s + 8] = static_cast<uint8_t>((scale & 15) | ((min & 15) << 4));
  }
}

// Q4_K and Q5_K.
template <typename Block>
void encode_pairs(const float* x, int most, Block& block) {
  const AffineFit fit = fit_affine(x, {32, most, 63});
  block.scale = fit.scale;
  block.min = fit.min;
  pack_k_scales(fit, block.scales);
  for (int i = 0; i < kSuperBlockElements; ++i) {
    set_nibble_of_pair(block.quants, i, fit.quants[i]);
    if constexpr (requires { block.high_bits; })
      block.high_bits[i % 32] |= static_cast<uint8_t>((fit.quants[i] >> 4) << (i / 32));
  }
}
void encode(const float* x, BlockQ4_K& block) { encode_pairs(x, 15, block); }
void encode(const float* x, BlockQ5_K& block) { encode_pairs(x, 31, block); }

void encode(const float* x, BlockQ6_K& block) {
  const SymmetricFit fit = fit_symmetric(x, {32, 128});
  block.scale = fit.scale;
  std::copy(fit.scales.begin(), fit.scales.end(), block.scales);
  for (int i = 0; i < kSuperBlockElements; ++i) {
    const int q = fit.quants[i] + 32, half = i / 128, group = i % 128 / 32, l = i % 32;
    block.low_bits[64 * half + 32 * (group % 2) + l] |=
        static_cast<uint8_t>(group < 2 ? q & 15 : (q & 15) << 4);
    block.high_bits[32 * half + l] |= static_cast<uint8_t>((q >> 4) << (2 * group));
  }
}

// Q4_G32 and Q4_G128. The values between the least and the largest one, and 0, are divided evenly.
template <HasZeros Block>
void encode(const float* x, Block& block) {
  for (int g = 0; g < Block::kElements / Block::kGroup; ++g) {
    const float* group = x + g * Block::kGroup;
    const auto [low, high] = std::minmax_element(group, group + Block::kGroup);
    const float least = std::min(*low, 0.0f), scale = (std::max(*high, 0.0f) - least) / 15,
                steps = inverse(scale);
    const int zero = quant(-least * steps + 0.5f, 15);
    block.scales[g] = float_to_f16(scale);
    block.zeros[g] = static_cast<uint8_t>(zero);
    for (int i = 0; i < Block::kGroup; ++i) {
      const int at = g * Block::kGroup + i;
      const int q = quant(group[i] * steps + (static_cast<float>(zero) + 0.5f), 15);
      block.quants[at / 32 * 16 + at % 16] |= static_cast<uint8_t>(q << (at % 32 / 16 * 4));
    }
  }
}

template <HasZeros Block>
bool has_finite_scales(const Block& block) {
  return std::all_of(std::begin(block.scales), std::end(block.scales), is_finite_half);
}
template <typename Block>
bool has_finite_scales(const Block& block) {
  bool finite = is_finite_half(block.scale);
  if constexpr (requires { block.min; }) finite = finite && is_finite_half(block.min);
  return finite;
}

void check_magnitudes(DType dtype, std::span<const float> values) {
  for (size_t i = 0; i < values.size(); ++i)
    if (!(std::fabs(values[i]) <= kMaxMagnitude))
      throw file_error("[quantize] element {}: expected a finite number that {} can hold, found {}",
                       i, name(dtype), values[i]);
}

template <typename Block>
void encode_blocks(DType dtype, std::span<const float> values, std::span<std::byte> out) {
  check_magnitudes(dtype, values);
  const size_t elements = static_cast<size_t>(info(dtype).elements_per_block);
  for (size_t b = 0; b * elements < values.size(); ++b) {
    const float* x = values.data() + b * elements;
    Block block{};
    encode(x, block);
    if (!has_finite_scales(block))
      throw file_error(
          "[quantize] elements from {}: too large for {}, whose scales are 16-bit floats",
          b * elements, name(dtype));
    std::memcpy(out.data() + b * sizeof(Block), &block, sizeof(Block));
  }
}

template <typename T, typename Convert>
void encode_plain(std::span<const float> values, std::span<std::byte> out, Convert convert) {
  for (size_t i = 0; i < values.size(); ++i) {
    const T value = convert(values[i]);
    std::memcpy(out.data() + i * sizeof(T), &value, sizeof(T));
  }
}

void encode_halves(std::span<const float> values, std::span<std::byte> out) {
  encode_plain<uint16_t>(values, out, [](float value) {
    const uint16_t bits = float_to_f16(value);
    if (std::isfinite(value) && !is_finite_half(bits))
      throw file_error("[quantize] {} is too large for f16", value);
    return bits;
  });
}

}  // namespace

bool can_quantize(DType dtype) { return is_float(dtype) || is_block(dtype); }

void quantize(DType dtype, std::span<const float> values, std::span<std::byte> out) {
  check_storage(dtype, values.size(), out);
  switch (dtype) {
    case DType::kF32:
      return encode_plain<float>(values, out, [](float value) { return value; });
    case DType::kF64:
      return encode_plain<double>(values, out, [](float value) { return double{value}; });
    case DType::kF16:
      return encode_halves(values, out);
    case DType::kBF16:
      return encode_plain<uint16_t>(values, out, float_to_bf16);
    case DType::kQ4_0:
      return encode_blocks<BlockQ4_0>(dtype, values, out);
    case DType::kQ4_1:
      return encode_blocks<BlockQ4_1>(dtype, values, out);
    case DType::kQ5_0:
      return encode_blocks<BlockQ5_0>(dtype, values, out);
    case DType::kQ5_1:
      return encode_blocks<BlockQ5_1>(dtype, values, out);
    case DType::kQ8_0:
      return encode_blocks<BlockQ8_0>(dtype, values, out);
    case DType::kQ2_K:
      return encode_blocks<BlockQ2_K>(dtype, values, out);
    case DType::kQ3_K:
      return encode_blocks<BlockQ3_K>(dtype, values, out);
    case DType::kQ4_K:
      return encode_blocks<BlockQ4_K>(dtype, values, out);
    case DType::kQ5_K:
      return encode_blocks<BlockQ5_K>(dtype, values, out);
    case DType::kQ6_K:
      return encode_blocks<BlockQ6_K>(dtype, values, out);
    case DType::kQ4_G32:
      return encode_blocks<BlockQ4_G32>(dtype, values, out);
    case DType::kQ4_G128:
      return encode_blocks<BlockQ4_G128>(dtype, values, out);
    default:
      throw usage_error("[quantize] cannot convert f32 to {}", name(dtype));
  }
}

}  // namespace ridge::files
