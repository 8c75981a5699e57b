// SPDX-License-Identifier: Apache-2.0
// fuse_softmax_cross_entropy: the loss kept whole.
#include "passes/pass_trial.h"

namespace ridge::passes {
namespace {

TEST(FuseSoftmaxCrossEntropy, KeepsTheLossWhole) {
  models::ForwardGraph forward = one_layer_forward();
  Graph after = try_pass(fuse_softmax_cross_entropy_pass(), forward.graph, forward.load);
  Graph expanded = run_pass(expand_pass(), after);
  EXPECT_EQ(count(expanded, "softmax_cross_entropy"), 1);
  EXPECT_EQ(count(expanded, "log_softmax"), 0);
}

TEST(FuseSoftmaxCrossEntropy, LowersLaunchesAndBytes) {
  PlannedCost before = planned_step("baseline", "");
  PlannedCost after = planned_step("baseline", "+fuse_softmax_cross_entropy");
  EXPECT_LT(after.launches, before.launches);
  EXPECT_LT(after.bytes, before.bytes);
}

}  // namespace
}  // namespace ridge::passes
