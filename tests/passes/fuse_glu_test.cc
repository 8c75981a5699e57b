// SPDX-License-Identifier: Apache-2.0
// Tests of fuse_glu: activation and product are kept whole.
#include "passes/pass_trial.h"

namespace ridge::passes {
namespace {

TEST(FuseGlu, KeepsTheGateWhole) {
  Graph after = try_pass(fuse_glu_pass);
  Graph expanded = run_pass(expand_pass, after);
  EXPECT_EQ(count(expanded, "glu"), 1);
  EXPECT_EQ(count(expanded, "silu"), 0);
}

TEST(FuseGlu, LowersLaunchesAndBytes) { expect_lower_step("fuse_glu"); }

}  // namespace
}  // namespace ridge::passes
