// SPDX-License-Identifier: Apache-2.0
// Blocks made bit by bit from integers, by the byte positions of the GGUF format, have the values
// of their formulas, and nothing is written next to them.
#include "base/block_formats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "base/bf16.h"
#include "base/random.h"

namespace ridge {
namespace {

using Bytes = std::span<uint8_t>;
using Values = std::vector<double>;

void put(Bytes block, int byte, int shift, int value) {
  block[static_cast<size_t>(byte)] |= static_cast<uint8_t>(value << shift);
}

int draw(Random& random, int bits) { return static_cast<int>(random.below(1u << bits)); }

// Draws a scale or a min.
double put_half(Bytes block, int byte, Random& random) {
  const uint16_t bits = float_to_f16(0.25f * random.uniform() - 0.125f);
  put(block, byte, 0, bits & 255);
  put(block, byte + 1, 0, bits >> 8);
  return f16_to_float(bits);
}

// Blocks of 32 elements of 4 or 5 bits.
Values draw_block(Bytes block, Random& random, int bits, bool has_min) {
  const double scale = put_half(block, 0, random), min = has_min ? put_half(block, 2, random) : 0;
  const int high = has_min ? 4 : 2, quants = high + (bits == 5 ? 4 : 0);
  Values values;
  for (int i = 0; i < 32; ++i) {
    const int q = draw(random, bits);
    put(block, quants + i % 16, i < 16 ? 0 : 4, q & 15);
    if (bits == 5) put(block, high + i / 8, i % 8, q >> 4);
    values.push_back(scale * (q - (has_min ? 0 : 1 << (bits - 1))) + min);
  }
  return values;
}

Values draw_q8_0(Bytes block, Random& random) {
  const double scale = put_half(block, 0, random);
  Values values;
  for (int i = 0; i < 32; ++i) {
    const int q = draw(random, 8) - 128;
    put(block, 2 + i, 0, q & 255);
    values.push_back(scale * q);
  }
  return values;
}

Values draw_q2_k(Bytes block, Random& random) {
  const double scale = put_half(block, 80, random), min = put_half(block, 82, random);
  Values values;
  for (int sub = 0; sub < 16; ++sub) {
    const int s = draw(random, 4), m = draw(random, 4);
    put(block, sub, 0, s);
    put(block, sub, 4, m);
    for (int i = 16 * sub; i < 16 * sub + 16; ++i) {
      const int q = draw(random, 2);
      put(block, 16 + 32 * (i / 128) + i % 32, 2 * (i % 128 / 32), q);
      values.push_back(scale * s * q - min * m);
    }
  }
  return values;
}

Values draw_q3_k(Bytes block, Random& random) {
  const double scale = put_half(block, 108, random);
  Values values;
  for (int sub = 0; sub < 16; ++sub) {
    const int s = draw(random, 6);
    put(block, 96 + sub % 8, sub < 8 ? 0 : 4, s & 15);
    put(block, 104 + sub % 4, 2 * (sub / 4), s >> 4);
    for (int i = 16 * sub; i < 16 * sub + 16; ++i) {
      const int q = draw(random, 3);
      put(block, 32 + 32 * (i / 128) + i % 32, 2 * (i % 128 / 32), q & 3);
      put(block, i % 32, i / 32, q >> 2);
      values.push_back(scale * (s - 32) * (q - 4));
    }
  }
  return values;
}

// Q4_K and Q5_K.
Values draw_pairs(Bytes block, Random& random, int bits) {
  const double scale = put_half(block, 0, random), min = put_half(block, 2, random);
  const int high = 16, quants = bits == 5 ? 48 : 16;
  Values values;
  for (int sub = 0; sub < 8; ++sub) {
    const int s = draw(random, 6), m = draw(random, 6);
    if (sub < 4) {
      put(block, 4 + sub, 0, s);
      put(block, 8 + sub, 0, m);
    } else {
      put(block, 8 + sub, 0, s & 15);
      put(block, 8 + sub, 4, m & 15);
      put(block, 4 + sub - 4, 6, s >> 4);
      put(block, 4 + sub, 6, m >> 4);
    }
    for (int i = 32 * sub; i < 32 * sub + 32; ++i) {
      const int q = draw(random, bits);
      put(block, quants + 32 * (sub / 2) + i % 32, 4 * (sub % 2), q & 15);
      if (bits == 5) put(block, high + i % 32, sub, q >> 4);
      values.push_back(scale * s * q - min * m);
    }
  }
  return values;
}

Values draw_q6_k(Bytes block, Random& random) {
  const double scale = put_half(block, 208, random);
  Values values;
  for (int sub = 0; sub < 16; ++sub) {
    const int s = draw(random, 8) - 128;
    put(block, 192 + sub, 0, s & 255);
    for (int i = 16 * sub; i < 16 * sub + 16; ++i) {
      const int q = draw(random, 6), half = i / 128, group = i % 128 / 32;
      put(block, 64 * half + 32 * (group % 2) + i % 32, 4 * (group / 2), q & 15);
      put(block, 128 + 32 * half + i % 32, 2 * group, q >> 4);
      values.push_back(scale * s * (q - 32));
    }
  }
  return values;
}

// Q4_G32 and Q4_G128.
Values draw_groups(Bytes block, Random& random, int groups, int group) {
  Values values;
  const int zeros = 2 * groups, quants = groups == 1 ? 4 : 3 * groups;
  for (int g = 0; g < groups; ++g) {
    const double scale = put_half(block, 2 * g, random);
    const int zero = static_cast<int>(random.below(17));
    put(block, zeros + g, 0, zero);
    for (int i = g * group; i < (g + 1) * group; ++i) {
      const int q = draw(random, 4);
      put(block, quants + i / 32 * 16 + i % 16, i % 32 < 16 ? 0 : 4, q);
      values.push_back(scale * (q - zero));
    }
  }
  return values;
}

struct Format {
  DType dtype;
  std::function<Values(Bytes, Random&)> draw;
};

Format blocks_of(DType dtype, int bits, bool has_min) {
  return {dtype, [=](Bytes to, Random& random) { return draw_block(to, random, bits, has_min); }};
}

Format pairs_of(DType dtype, int bits) {
  return {dtype, [=](Bytes to, Random& random) { return draw_pairs(to, random, bits); }};
}

Format groups_of(DType dtype, int groups, int group) {
  return {dtype, [=](Bytes to, Random& random) { return draw_groups(to, random, groups, group); }};
}

TEST(BlockFormats, HaveTheValuesOfTheirFormulas) {
  constexpr size_t kBlocks = 20, kMargin = 8;
  constexpr float kUntouched = 12345;
  for (const Format& format :
       {blocks_of(DType::kQ4_0, 4, false), blocks_of(DType::kQ4_1, 4, true),
        blocks_of(DType::kQ5_0, 5, false), blocks_of(DType::kQ5_1, 5, true),
        Format{DType::kQ8_0, draw_q8_0}, Format{DType::kQ2_K, draw_q2_k},
        Format{DType::kQ3_K, draw_q3_k}, pairs_of(DType::kQ4_K, 4), pairs_of(DType::kQ5_K, 5),
        Format{DType::kQ6_K, draw_q6_k}, groups_of(DType::kQ4_G32, 2, 32),
        groups_of(DType::kQ4_G128, 1, 128)}) {
    SCOPED_TRACE(name(format.dtype));
    const auto size = static_cast<size_t>(info(format.dtype).bytes_per_block);
    std::vector<uint8_t> bytes(1 + kBlocks * size);  // unaligned
    Random random(7);
    Values want;
    for (size_t b = 0; b < kBlocks; ++b) {
      const Values block = format.draw(Bytes(bytes).subspan(1 + b * size, size), random);
      want.insert(want.end(), block.begin(), block.end());
    }
    std::vector<float> got(want.size() + 2 * kMargin, kUntouched);
    dequantize(format.dtype, std::as_bytes(Bytes(bytes).subspan(1)),
               std::span(got).subspan(kMargin, want.size()));
    for (size_t i = 0; i < want.size(); ++i)
      ASSERT_EQ(got[kMargin + i], static_cast<float>(want[i])) << i;
    EXPECT_EQ(std::count(got.begin(), got.begin() + kMargin, kUntouched), std::ptrdiff_t{kMargin});
    EXPECT_EQ(std::count(got.end() - kMargin, got.end(), kUntouched), std::ptrdiff_t{kMargin});
  }
}

// The plain types at the ends of their ranges.
template <typename T>
void expect_values(DType dtype, const std::vector<T>& stored, const std::vector<float>& want) {
  std::vector<float> got(want.size());
  dequantize(dtype, std::as_bytes(std::span(stored)), got);
  EXPECT_EQ(got, want) << name(dtype);
}

TEST(PlainFormats, AreRoundedToNearest) {
  expect_values<int8_t>(DType::kI8, {-128, -1, 127}, {-128, -1, 127});
  expect_values<uint8_t>(DType::kU8, {0, 128, 255}, {0, 128, 255});
  expect_values<int16_t>(DType::kI16, {-32768, 32767}, {-32768, 32767});
  expect_values<uint16_t>(DType::kU16, {32768, 65535}, {32768, 65535});
  expect_values<int32_t>(DType::kI32, {INT32_MIN, 16777217, 16777219},
                         {-0x1p31f, 0x1p24f, 16777220});
  expect_values<uint32_t>(DType::kU32, {UINT32_MAX}, {0x1p32f});
  expect_values<int64_t>(DType::kI64, {INT64_MIN, -3}, {-0x1p63f, -3});
  expect_values<uint64_t>(DType::kU64, {UINT64_MAX, 3}, {0x1p64f, 3});
  expect_values<double>(DType::kF64, {0.1, -2}, {0.1f, -2});
  expect_values<uint8_t>(DType::kBool, {0, 1, 2}, {0, 1, 1});
  expect_values<uint16_t>(DType::kBF16, {0x3f80, 0xc000}, {1, -2});
  expect_values<uint16_t>(DType::kF16, {0x3c00, 0xc000}, {1, -2});
  expect_values<uint8_t>(DType::kF8E4M3, {0x38, 0xc0, 0x7e, 0x01}, {1, -2, 448, 0x1p-9f});
  expect_values<uint8_t>(DType::kF8E5M2, {0x3c, 0xc0, 0x7b, 0x01}, {1, -2, 57344, 0x1p-16f});
}

// Every code, halfway points and what lies beside them, and values beyond the largest.
TEST(Fp8, IsRoundedToNearestEven) {
  for (int code = 0; code < 256; ++code)
    if ((code & 0x7f) != 0x7f) {
      const auto bits = static_cast<uint8_t>(code);
      EXPECT_EQ(float_to_f8_e4m3(f8_e4m3_to_float(bits)), bits) << code;
    }
  for (int code = 0; code < 0x7e; ++code) {
    const float low = f8_e4m3_to_float(static_cast<uint8_t>(code)),
                high = f8_e4m3_to_float(static_cast<uint8_t>(code + 1)), middle = (low + high) / 2;
    EXPECT_EQ(float_to_f8_e4m3(middle), code + code % 2) << code;
    EXPECT_EQ(float_to_f8_e4m3(std::nextafter(middle, low)), code) << code;
    EXPECT_EQ(float_to_f8_e4m3(-std::nextafter(middle, high)), (code + 1) | 0x80) << code;
  }
  EXPECT_EQ(float_to_f8_e4m3(1e-30f), 0);
  EXPECT_EQ(float_to_f8_e4m3(449), 0x7e);
  EXPECT_EQ(float_to_f8_e4m3(-1e30f), 0xfe);
  EXPECT_EQ(float_to_f8_e4m3(std::numeric_limits<float>::infinity()), 0x7e);
  EXPECT_EQ(float_to_f8_e4m3(std::numeric_limits<float>::quiet_NaN()) & 0x7f, 0x7f);
}

}  // namespace
}  // namespace ridge
