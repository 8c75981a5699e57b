// SPDX-License-Identifier: Apache-2.0
// Tests of fuse_rms_norm: norms are kept whole, fused with the add before them if its sum feeds
// exactly one norm.
#include "passes/pass_trial.h"

namespace ridge::passes {
namespace {

TEST(FuseRmsNorm, TakesTheAddBeforeTheNorm) {
  Graph after = try_pass(fuse_rms_norm_pass);
  // The first norm reads the embedding; the other two read the sums after attention and
  // feed-forward.
  EXPECT_EQ(count(after, "rms_norm"), 1);
  EXPECT_EQ(count(after, "add_rms_norm"), 2);
  EXPECT_EQ(count(after, "add"), 0);
}

TEST(FuseRmsNorm, LowersLaunchesAndBytes) { expect_lower_step("fuse_rms_norm"); }

// `norms` norms of the sum a + b.
Graph sum_with_norms(int norms) {
  Graph graph;
  Builder b(graph, ops::table());
  Type type{DType::kF32, {4, 8}};
  ValueId sum = ops::add(b, b.input("a", type), b.input("b", type));
  for (int i = 0; i < norms; ++i) {
    ValueId weight = b.parameter(fmt::format("w{}", i), {DType::kF32, {8}});
    graph.outputs.push_back(
        b.call_all("rms_norm", {sum, weight}, {{"eps", 1e-5}, {"offset", 1.0}})[0]);
  }
  return graph;
}

TEST(FuseRmsNorm, TakesOneNormOfASumOnly) {
  Graph one = sum_with_norms(1), two = sum_with_norms(2);
  Graph after_one = run_pass(fuse_rms_norm_pass, one),
        after_two = run_pass(fuse_rms_norm_pass, two);
  EXPECT_EQ(count(after_one, "add_rms_norm"), 1);
  EXPECT_EQ(after_one.nodes[0].attrs.real("offset"), 1.0);
  EXPECT_EQ(count(after_two, "add_rms_norm"), 0);
  EXPECT_EQ(count(after_two, "rms_norm"), 2);
  expect_same_meaning(one, after_one, identity_load(one));
  expect_same_meaning(two, after_two, identity_load(two));
}

// A sum that is itself an output, or is read elsewhere, must still exist.
TEST(FuseRmsNorm, KeepsTheSumForOthers) {
  Graph graph = sum_with_norms(1);
  graph.outputs.push_back(graph.nodes[0].outputs[0]);
  Graph after = run_pass(fuse_rms_norm_pass, graph);
  EXPECT_EQ(count(after, "add_rms_norm"), 1);
  expect_same_meaning(graph, after, identity_load(graph));
}

// A weight that is computed after the sum does not exist yet at the place of the add.
TEST(FuseRmsNorm, LeavesANormWithALaterWeightAlone) {
  Graph graph;
  Builder b(graph, ops::table());
  Type type{DType::kF32, {4, 8}};
  ValueId sum = ops::add(b, b.input("a", type), b.input("b", type));
  ValueId weight = ops::unary(b, "exp", b.parameter("w", {DType::kF32, {8}}));
  graph.outputs = {b.call_all("rms_norm", {sum, weight}, {{"eps", 1e-5}})[0]};
  Graph after = run_pass(fuse_rms_norm_pass, graph);
  EXPECT_EQ(count(after, "add_rms_norm"), 0);
  expect_same_meaning(graph, after, identity_load(graph));
}

}  // namespace
}  // namespace ridge::passes
