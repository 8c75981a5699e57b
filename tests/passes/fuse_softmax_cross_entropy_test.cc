// SPDX-License-Identifier: Apache-2.0
// Tests of fuse_softmax_cross_entropy: the loss is kept whole.
#include "passes/pass_trial.h"

namespace ridge::passes {
namespace {

TEST(FuseSoftmaxCrossEntropy, KeepsTheLossWhole) {
  Graph after = try_pass(fuse_softmax_cross_entropy_pass);
  Graph expanded = run_pass(expand_pass, after);
  EXPECT_EQ(count(expanded, "softmax_cross_entropy"), 1);
  EXPECT_EQ(count(expanded, "log_softmax"), 0);
}

TEST(FuseSoftmaxCrossEntropy, LowersLaunchesAndBytes) {
  expect_lower_step("fuse_softmax_cross_entropy");
}

}  // namespace
}  // namespace ridge::passes
