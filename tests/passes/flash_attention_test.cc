// SPDX-License-Identifier: Apache-2.0
// Tests of flash_attention: the fused op replaces attention.
#include "passes/pass_trial.h"

namespace ridge::passes {
namespace {

TEST(FlashAttention, TakesThePlaceOfAttention) {
  Graph after = try_pass(flash_attention_pass);
  EXPECT_EQ(count(after, "attention"), 0);
  EXPECT_EQ(count(after, "flash_attention"), 1);
}

// No S x S matrix: launches, bytes and peak all fall.
TEST(FlashAttention, LowersLaunchesBytesAndPeak) {
  PlannedCost after = expect_lower_step("flash_attention");
  EXPECT_LT(after.peak_bytes, planned_step("baseline", "").peak_bytes);
}

}  // namespace
}  // namespace ridge::passes
