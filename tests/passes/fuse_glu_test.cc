// SPDX-License-Identifier: Apache-2.0
// fuse_glu: activation and product kept whole.
#include "passes/pass_trial.h"

namespace ridge::passes {
namespace {

TEST(FuseGlu, KeepsTheGateWhole) {
  models::ForwardGraph forward = one_layer_forward();
  Graph after = try_pass(fuse_glu_pass(), forward.graph, forward.load);
  Graph expanded = run_pass(expand_pass(), after);
  EXPECT_EQ(count(expanded, "glu"), 1);
  EXPECT_EQ(count(expanded, "silu"), 0);
}

TEST(FuseGlu, LowersLaunchesAndBytes) {
  PlannedCost before = planned_step("baseline", ""), after = planned_step("baseline", "+fuse_glu");
  EXPECT_LT(after.launches, before.launches);
  EXPECT_LT(after.bytes, before.bytes);
}

}  // namespace
}  // namespace ridge::passes
