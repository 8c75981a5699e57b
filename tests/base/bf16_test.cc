// SPDX-License-Identifier: Apache-2.0
// Both 16-bit formats, all 65536 patterns, against a decoder in double precision that follows the
// definition of the formats.
#include "base/bf16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ridge {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The value of a binary float with the given field widths (IEEE 754, subnormals included).
double decode(uint32_t bits, int exponent_bits, int fraction_bits) {
  int bias = (1 << (exponent_bits - 1)) - 1;
  int exponent = static_cast<int>(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  double fraction =
      std::ldexp(static_cast<double>(bits & ((1u << fraction_bits) - 1)), -fraction_bits);
  double sign = (bits >> (exponent_bits + fraction_bits)) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1)
    return fraction == 0 ? sign * INFINITY : std::numeric_limits<double>::quiet_NaN();
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias);
  return sign * std::ldexp(1 + fraction, exponent - bias);
}

struct Format {
  const char* name;
  int exponent_bits;
  int fraction_bits;
  float (*widen)(uint16_t);
  uint16_t (*narrow)(float);
};
void PrintTo(const Format& format, std::ostream* out) { *out << format.name; }

class Float16 : public testing::TestWithParam<Format> {
 protected:
  double value(uint32_t bits) const {
    return decode(bits, GetParam().exponent_bits, GetParam().fraction_bits);
  }
  uint16_t infinity() const {
    return static_cast<uint16_t>(((1 << GetParam().exponent_bits) - 1) << GetParam().fraction_bits);
  }
};

TEST_P(Float16, WidensAllPatternsExactly) {
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    double expected = value(bits);
    float got = GetParam().widen(static_cast<uint16_t>(bits));
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(got)) << bits;
    } else {
      ASSERT_EQ(static_cast<double>(got), expected) << bits;
      ASSERT_EQ(std::signbit(got), (bits & 0x8000) != 0) << bits;
    }
  }
}

TEST_P(Float16, AllPatternsMakeTheRoundTrip) {
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    float wide = GetParam().widen(static_cast<uint16_t>(bits));
    uint16_t back = GetParam().narrow(wide);
    if (std::isnan(value(bits))) {
      ASSERT_TRUE(std::isnan(GetParam().widen(back))) << bits;
    } else {
      ASSERT_EQ(back, bits);
    }
  }
}

// Between any two neighbors: below the middle rounds down, above rounds up, and the middle rounds
// to the even pattern.
TEST_P(Float16, RoundsToNearestEven) {
  for (uint32_t lower = 0; lower + 1 < infinity(); ++lower) {
    auto middle = static_cast<float>((value(lower) + value(lower + 1)) / 2);
    ASSERT_EQ(static_cast<double>(middle), (value(lower) + value(lower + 1)) / 2)
        << "not exact in a float";
    uint32_t even = lower % 2 == 0 ? lower : lower + 1;
    for (uint32_t sign : {0u, 0x8000u}) {
      float factor = sign != 0 ? -1.0f : 1.0f;
      ASSERT_EQ(GetParam().narrow(factor * middle), even | sign) << lower;
      ASSERT_EQ(GetParam().narrow(factor * std::nextafter(middle, 0.0f)), lower | sign) << lower;
      ASSERT_EQ(GetParam().narrow(factor * std::nextafter(middle, kInfinity)), (lower + 1) | sign)
          << lower;
    }
  }
}

TEST_P(Float16, OverflowsToInfinityHalfAStepAboveTheLargest) {
  uint16_t largest = static_cast<uint16_t>(infinity() - 1);
  double step = value(largest) - value(largest - 1u);
  auto edge = static_cast<float>(value(largest) + step / 2);
  EXPECT_EQ(GetParam().narrow(std::nextafter(edge, 0.0f)), largest);
  EXPECT_EQ(GetParam().narrow(edge), infinity());
  EXPECT_EQ(GetParam().narrow(kInfinity), infinity());
  EXPECT_EQ(GetParam().narrow(-kInfinity), infinity() | 0x8000);
}

TEST_P(Float16, ANaNWhosePayloadIsCutOffStaysANaN) {
  EXPECT_TRUE(std::isnan(GetParam().widen(GetParam().narrow(std::bit_cast<float>(0x7F800001u)))));
  EXPECT_TRUE(std::isnan(GetParam().widen(GetParam().narrow(std::bit_cast<float>(0xFFFFFFFFu)))));
}

INSTANTIATE_TEST_SUITE_P(Formats,
                         Float16,
                         testing::Values(Format{"bf16", 8, 7, bf16_to_float, float_to_bf16},
                                         Format{"f16", 5, 10, f16_to_float, float_to_f16}),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace ridge
