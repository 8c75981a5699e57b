// SPDX-License-Identifier: Apache-2.0
// Tests of fuse_rope: q and k of a merged projection are rotated in one kernel; other rotations are
// kept whole.
#include "passes/pass_trial.h"

namespace ridge::passes {
namespace {

Graph merged(models::ForwardGraph& forward) {
  return run_pass(merge_qkv_pass, forward.graph, forward.load);
}

TEST(FuseRope, TurnsAMergedProjectionInOneKernel) {
  models::ForwardGraph forward = one_layer_forward();
  Graph before = merged(forward);
  Graph after = try_pass(fuse_rope_pass, before);
  EXPECT_EQ(count(after, "rope_qkv"), 1);
  EXPECT_EQ(count(after, "rope"), 0);
}

TEST(FuseRope, KeepsRotationsOfSeparateProjectionsWhole) {
  models::ForwardGraph forward = one_layer_forward();
  Graph after = run_pass(fuse_rope_pass, forward.graph);
  EXPECT_EQ(count(after, "rope_qkv"), 0);
  EXPECT_EQ(count(run_pass(expand_pass, after), "rope"), 2);
  expect_same_meaning(forward.graph, after, identity_load(forward.graph));
}

TEST(FuseRope, LowersLaunchesAndBytes) {
  for (const char* switches : {"+merge_qkv,", ""}) {
    PlannedCost before = planned_step("baseline", std::string(switches) + "-fuse_rope");
    PlannedCost after = planned_step("baseline", std::string(switches) + "+fuse_rope");
    EXPECT_LT(after.launches, before.launches) << switches;
    EXPECT_LT(after.bytes, before.bytes) << switches;
  }
}

// If q and k are rotated with different pairs, one kernel cannot do both.
TEST(FuseRope, LeavesUnequalRotationsApart) {
  models::ForwardGraph forward = one_layer_forward();
  Graph graph = merged(forward);
  for (Node& node : graph.nodes)
    if (node.op->name == "rope") {
      node.attrs.set("interleaved", true);
      break;
    }
  Graph after = run_pass(fuse_rope_pass, graph);
  EXPECT_EQ(count(after, "rope_qkv"), 0);
  EXPECT_EQ(count(after, "rope"), 2);
  expect_same_meaning(graph, after, identity_load(graph));
}

}  // namespace
}  // namespace ridge::passes
