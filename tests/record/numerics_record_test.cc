// SPDX-License-Identifier: Apache-2.0
// The counts of numbers, against rounding each of them.
#include "record/numerics_record.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/bf16.h"
#include "base/random.h"

namespace ridge::record {
namespace {

TEST(NumberRange, CountsWhatRoundingWouldLose) {
  Random random(5);
  std::vector<float> values{0.0f,
                            -0.0f,
                            0x1p-25f,
                            std::nextafter(0x1p-25f, 1.0f),
                            65519.99f,
                            65520.0f,
                            -65504.0f,
                            0x1p-134f,
                            0x1.8p-134f,
                            0x1.fep127f,
                            0x1.ffp127f,
                            std::numeric_limits<float>::denorm_min(),
                            std::numeric_limits<float>::max()};
  for (int i = 0; i < 20000; ++i)
    values.push_back(
        std::ldexp(random.uniform() - 0.5f, static_cast<int>(random.below(277)) - 149));
  NumberRange range;
  range.add(values, DType::kF32);
  NumberRange want;
  for (const float value : values) {
    if (std::isinf(value)) {
      ++want.not_finite;
      continue;
    }
    const float f16 = f16_to_float(float_to_f16(value)), bf16 = bf16_to_float(float_to_bf16(value));
    want.zeros += value == 0;
    want.f16_underflows += value != 0 && f16 == 0;
    want.bf16_underflows += value != 0 && bf16 == 0;
    want.f16_overflows += std::isinf(f16);
    want.bf16_overflows += std::isinf(bf16);
    want.subnormals += std::fpclassify(value) == FP_SUBNORMAL;
  }
  EXPECT_EQ(range.count, std::ssize(values));
  EXPECT_EQ(range.not_finite, want.not_finite);
  EXPECT_EQ(range.zeros, want.zeros);
  EXPECT_EQ(range.subnormals, want.subnormals);
  EXPECT_EQ(range.f16_underflows, want.f16_underflows);
  EXPECT_EQ(range.f16_overflows, want.f16_overflows);
  EXPECT_EQ(range.bf16_underflows, want.bf16_underflows);
  EXPECT_EQ(range.bf16_overflows, want.bf16_overflows);
  for (const int64_t each : {want.zeros, want.subnormals, want.f16_underflows, want.f16_overflows,
                             want.bf16_underflows, want.bf16_overflows})
    EXPECT_GT(each, 0);
  EXPECT_EQ(range.greatest, static_cast<double>(std::numeric_limits<float>::max()));
  EXPECT_EQ(range.least, static_cast<double>(std::numeric_limits<float>::denorm_min()));
}

TEST(NumberRange, HasTheRootMeanSquareOfFiniteNumbers) {
  NumberRange range;
  EXPECT_EQ(range.rms(), 0);
  const std::vector<float> values{
      3, -4, 0, 0, std::nanf(""), -std::numeric_limits<float>::infinity()};
  range.add(values, DType::kF16);
  EXPECT_EQ(range.rms(), 2.5);
  EXPECT_EQ(range.not_finite, 2);
  EXPECT_EQ(range.share(range.zeros), 1.0 / 3);
  const std::vector<float> small{0x1p-15f, 0x1p-14f};
  range.add(small, DType::kF16);
  EXPECT_EQ(range.subnormals, 1);
}

}  // namespace
}  // namespace ridge::record
