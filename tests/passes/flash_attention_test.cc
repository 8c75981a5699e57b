// SPDX-License-Identifier: Apache-2.0
// flash_attention: the fused op in place of attention.
#include "passes/pass_trial.h"

namespace ridge::passes {
namespace {

TEST(FlashAttention, TakesThePlaceOfAttention) {
  models::ForwardGraph forward = one_layer_forward();
  Graph after = try_pass(flash_attention_pass(), forward.graph, forward.load);
  EXPECT_EQ(count(after, "attention"), 0);
  EXPECT_EQ(count(after, "flash_attention"), 1);
}

// No S x S matrix: launches, bytes and peak all fall.
TEST(FlashAttention, LowersLaunchesBytesAndPeak) {
  PlannedCost before = planned_step("baseline", ""),
              after = planned_step("baseline", "+flash_attention");
  EXPECT_LT(after.launches, before.launches);
  EXPECT_LT(after.bytes, before.bytes);
  EXPECT_LT(after.peak_bytes, before.peak_bytes);
}

}  // namespace
}  // namespace ridge::passes
