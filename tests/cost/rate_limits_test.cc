// SPDX-License-Identifier: Apache-2.0
// Least times by type, against sums made by hand.
#include "cost/rate_limits.h"

#include <gtest/gtest.h>

#include "cost/hardware.h"
#include "cost/made_up_ceilings.h"

namespace ridge::cost {
namespace {

Ceilings machine() {
  Ceilings c = made_up_ceilings({{1 << 20, 10, 10}}, 50);
  c.measured_at = "2026-01-02T03:04:05Z";
  c.multiplies = {{DType::kF32, "vfmadd ymm", 32, 100, 80, 80, ""},
                  {DType::kI16, "vpmaddwd ymm", 64, 200, 190, 150, ""}};
  c.unpacks = {{DType::kQ4_0x16, 40}, {DType::kQ6_Kx16, 5}};
  return c;
}

TEST(RateLimits, AddTheTimesOfEachType) {
  const TypedAmounts amounts{{{DType::kI16, 1000}, {DType::kF32, 400}}, {}};
  EXPECT_EQ(amounts.all_macs(), 1400);
  EXPECT_DOUBLE_EQ(theoretical_multiply_ns(amounts, machine()), 2000.0 / 200 + 800.0 / 100);
  EXPECT_DOUBLE_EQ(multiply_only_ns(amounts, machine()), 2000.0 / 190 + 800.0 / 80);
  EXPECT_EQ(multiply_only_ns({}, machine()), 0);
}

TEST(RateLimits, AreUnknownIfATypeHasNoRate) {
  const TypedAmounts amounts{{{DType::kI16, 1000}, {DType::kI8, 1}}, {}};
  EXPECT_EQ(multiply_only_ns(amounts, machine()), 0);
  EXPECT_EQ(theoretical_multiply_ns(amounts, ceilings_of(*find_hardware("h100"))) > 0, true);
}

// A data sheet has theoretical rates, but nothing was measured.
TEST(RateLimits, OfADataSheetAreTheoretical) {
  const Ceilings c = ceilings_of(*find_hardware("a100"));
  const TypedAmounts amounts{{{DType::kBF16, 312'000}}, {}};
  EXPECT_DOUBLE_EQ(theoretical_multiply_ns(amounts, c), 2.0 * 312'000 / 312'000);
  EXPECT_EQ(multiply_only_ns(amounts, c), 0);
}

TEST(RateLimits, ReadEachWeightAtTheSlowerOfMemoryAndUnpacking) {
  const TypedAmounts amounts{{},
                             {{DType::kQ4_0x16, 800}, {DType::kQ6_Kx16, 100}, {DType::kF32, 60}}};
  EXPECT_EQ(amounts.all_weight_bytes(), 960);
  // Memory reads 10 bytes per ns: it limits Q4_0 and f32, unpacking limits Q6_K.
  EXPECT_DOUBLE_EQ(read_and_unpack_ns(amounts, 30, machine()),
                   800.0 / 10 + 100.0 / 5 + 60.0 / 10 + 30.0 / 10);
  EXPECT_DOUBLE_EQ(unpack_only_ns(amounts, machine()), 800.0 / 40 + 100.0 / 5);
}

TEST(RateLimits, OfUnpackingAreUnknownIfATypeWasNotMeasured) {
  const TypedAmounts amounts{{}, {{DType::kQ4_0x16, 800}, {DType::kQ2_K, 100}}};
  EXPECT_EQ(unpack_only_ns(amounts, machine()), 0);
  EXPECT_DOUBLE_EQ(read_and_unpack_ns(amounts, 0, machine()), 90);
}

TEST(RateLimits, CountRepeats) {
  TypedAmounts amounts{{{DType::kF32, 2}}, {{DType::kF32, 3}}};
  amounts += times(4, amounts);
  EXPECT_EQ(amounts.all_macs(), 10);
  EXPECT_EQ(amounts.all_weight_bytes(), 15);
}

}  // namespace
}  // namespace ridge::cost
