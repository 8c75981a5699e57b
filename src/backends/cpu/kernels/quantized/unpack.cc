// SPDX-License-Identifier: Apache-2.0
// Unpacks blocks of every format to quants and floats.
#include "backends/cpu/kernels/quantized/unpack.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/quantized/unpack.cc"
#include "backends/cpu/kernels/simd_targets.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "backends/cpu/kernels/quantized/inner_loops.h"
#include "backends/cpu/kernels/quantized/quants-inl.h"
#include "base/bf16.h"

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

template <typename Block>
HWY_INLINE const Block* first_block(const WeightPart& part) {
  constexpr int64_t kElements = block_elements<Block>();
  return reinterpret_cast<const Block*>(part.weight.data) +
         part.row * (part.weight.in / kElements) + part.column / kElements;
}

void unpack_row_quants(const WeightPart& part, const UnpackedQuants& to) {
  const int64_t group = quant_format(part.weight.dtype).group;
  with_block(part.weight.dtype, [&](auto type) HWY_ATTR {
    using Block = decltype(type);
    const Block* block = first_block<Block>(part);
    for (int64_t k = 0; k < part.depth; k += block_elements<Block>(), ++block)
      unpack_quants(*block, {to.quants + k, to.scales + k / group, to.offsets + k / group});
  });
}

// Widens 64 quants, four columns of 16 rows, to int16 minus `zero`: even columns, then odd ones.
HWY_INLINE void widen_four_columns(const uint8_t* quants, int zero, int16_t* int16_to) {
  const HWY_CAPPED(uint16_t, 32) d;
  const hn::RebindToSigned<decltype(d)> signed_d;
  const auto store = [&](auto wide, int16_t* to) HWY_ATTR {
    const auto less = hn::Set(signed_d, static_cast<int16_t>(zero));
    hn::Store(hn::Sub(hn::BitCast(signed_d, wide), less), signed_d, to);
  };
  for (size_t i = 0; i < 32; i += hn::Lanes(d)) {
    const auto pair = hn::Load(d, reinterpret_cast<const uint16_t*>(quants) + i);
    store(hn::And(pair, hn::Set(d, 0xff)), int16_to + i);
    store(hn::ShiftRight<8>(pair), int16_to + 32 + i);
  }
}

HWY_INLINE void widen_columns(const uint8_t* quants, int64_t columns, int zero, int16_t* int16_to) {
  for (int64_t at = 0; at < columns * kRowBlockRows; at += 4 * kRowBlockRows)
    widen_four_columns(quants + at, zero, int16_to + at);
}

// Row by row, through a linear copy that stays in L1. `bytes` [depth / 4, 16, 4] gets the quants.
HWY_INLINE void unpack_rows(const WeightPart& part, uint8_t* bytes, UnpackedRows& unpacked) {
  const auto& [weight, row, column, depth] = part;
  const QuantFormat format = quant_format(weight.dtype);
  const int64_t groups = depth / format.group;
  alignas(64) uint8_t quants[kRowBlockDepth];
  alignas(64) float scales[kRowBlockDepth / 16], offsets[kRowBlockDepth / 16];
  for (int64_t r = 0; r < kRowBlockRows; ++r) {
    if (row + r < weight.out) {
      unpack_row_quants({weight, row + r, column, depth}, {quants, scales, offsets});
    } else {
      std::fill_n(quants, depth, static_cast<uint8_t>(format.zero));
      std::fill_n(scales, groups, 0.0f);
      std::fill_n(offsets, groups, 0.0f);
    }
    for (int64_t k = 0; k < depth; k += 4)
      std::memcpy(bytes + kRowBlockRows * k + 4 * r, quants + k, 4);
    float zero_or_nan = 0;
    for (int64_t g = 0; g < groups; ++g) {
      unpacked.scales[kRowBlockRows * g + r] = scales[g];
      unpacked.offsets[kRowBlockRows * g + r] = offsets[g];
      zero_or_nan += 0 * scales[g];
    }
    unpacked.zero_or_nan[r] = zero_or_nan;
  }
}

void unpack_int16_rows(const WeightPart& part, UnpackedRows& unpacked) {
  alignas(64) uint8_t bytes[kRowBlockRows * kRowBlockDepth];
  unpack_rows(part, bytes, unpacked);
  widen_columns(bytes, part.depth, quant_format(part.weight.dtype).zero, unpacked.int16_quants);
}

void unpack_int8_rows(const WeightPart& part, UnpackedRows& unpacked) {
  unpack_rows(part, unpacked.uint8_quants, unpacked);
}

template <typename Block>
HWY_INLINE void row_floats(const Block* block, int64_t depth, int64_t group, float* floats) {
  constexpr int64_t kElements = block_elements<Block>();
  alignas(64) uint8_t quants[kElements];
  alignas(64) float scales[16], offsets[16];
  for (int64_t k = 0; k < depth; k += kElements, ++block) {
    unpack_quants(*block, {quants, scales, offsets});
    for (int64_t g = 0; g < kElements / group; ++g) {
      const float scale = scales[g], offset = offsets[g];
      const uint8_t* group_quants = quants + g * group;
      float* to = floats + k + g * group;
      for (int64_t i = 0; i < group; ++i)
        to[i] = scale * static_cast<float>(group_quants[i]) + offset;
    }
  }
}

template <typename T, typename Convert>
HWY_INLINE void row_plain(const WeightPart& part, float* floats, const Convert& convert) {
  const std::byte* from = part.weight.data + bytes_of<T>(part.row * part.weight.in + part.column);
  for (int64_t i = 0; i < part.depth; ++i) {
    T value;
    std::memcpy(&value, from + bytes_of<T>(i), sizeof(T));
    floats[i] = convert(value);
  }
}

void unpack_row_floats(const WeightPart& part, float* floats) {
  const DType dtype = part.weight.dtype;
  if (dtype == DType::kF32) {
    row_plain<float>(part, floats, [](float v) HWY_ATTR { return v; });
  } else if (dtype == DType::kF16) {
    row_plain<uint16_t>(part, floats, [](uint16_t v) HWY_ATTR { return half_to_float(v); });
  } else if (dtype == DType::kBF16) {
    row_plain<uint16_t>(part, floats, [](uint16_t v) HWY_ATTR { return bf16_to_float(v); });
  } else {
    with_block(dtype, [&](auto type) HWY_ATTR {
      using Block = decltype(type);
      row_floats(first_block<Block>(part), part.depth, quant_format(dtype).group, floats);
    });
  }
}

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridge::backends::cpu {

QuantFormat quant_format(DType dtype) {
  switch (dtype) {
    case DType::kQ4_0:
    case DType::kQ4_0x16:
      return {32, 15, 8, false};
    case DType::kQ5_0:
    case DType::kQ5_0x16:
      return {32, 31, 16, false};
    case DType::kQ8_0:
    case DType::kQ8_0x16:
      return {32, 255, 128, false};
    case DType::kQ4_1:
    case DType::kQ4_1x16:
    case DType::kQ4_K:
    case DType::kQ4_Kx16:
    case DType::kQ4_G32:
    case DType::kQ4_G32x16:
    case DType::kQ4_G128:
    case DType::kQ4_G128x16:
      return {32, 15, 0, true};
    case DType::kQ5_1:
    case DType::kQ5_K:
      return {32, 31, 0, true};
    case DType::kQ2_K:
      return {16, 3, 0, true};
    case DType::kQ3_K:
      return {16, 7, 4, false};
    case DType::kQ6_K:
    case DType::kQ6_Kx16:
      return {16, 63, 32, false};
    default:
      return {1, 0, 0, false};
  }
}

HWY_EXPORT(unpack_int16_rows);
void unpack_int16(const WeightPart& part, UnpackedRows& unpacked) {
  HWY_DYNAMIC_DISPATCH(unpack_int16_rows)(part, unpacked);
}

HWY_EXPORT(unpack_int8_rows);
void unpack_int8(const WeightPart& part, UnpackedRows& unpacked) {
  HWY_DYNAMIC_DISPATCH(unpack_int8_rows)(part, unpacked);
}

HWY_EXPORT(unpack_row_quants);
void unpack_quants(const WeightPart& part, const UnpackedQuants& quants) {
  HWY_DYNAMIC_DISPATCH(unpack_row_quants)(part, quants);
}

HWY_EXPORT(unpack_row_floats);
void unpack_floats(const WeightPart& part, float* floats) {
  HWY_DYNAMIC_DISPATCH(unpack_row_floats)(part, floats);
}

}  // namespace ridge::backends::cpu
#endif  // HWY_ONCE
