// SPDX-License-Identifier: Apache-2.0
// Tests of expand: composites that are not kept whole become primitives.
#include "passes/pass_trial.h"

namespace ridge::passes {
namespace {

TEST(Expand, LeavesNoComposite) {
  Graph after = try_pass(expand_pass);
  for (const Node& node : after.nodes)
    EXPECT_NE(node.op->kind, OpKind::kComposite) << node.op->name;
  EXPECT_FALSE(expand_pass.trade.empty());
}

TEST(Expand, GivesEachPrimitiveTheOriginOfItsComposite) {
  models::ForwardGraph forward = one_layer_forward();
  Graph after = run_pass(expand_pass, forward.graph);
  EXPECT_EQ(distinct_origins(forward.graph), distinct_origins(after));
  for (const Node& node : after.nodes) {
    if (node.from.empty()) continue;  // a view that the model built
    ASSERT_EQ(node.from.size(), 1u);
    EXPECT_EQ(node.scope, forward.graph.origins[static_cast<size_t>(node.from[0].id)].scope);
  }
}

TEST(Expand, LeavesWhatAPassKeptWhole) {
  models::ForwardGraph forward = one_layer_forward();
  Graph kept = run_pass(fuse_glu_pass, run_pass(fuse_softmax_cross_entropy_pass, forward.graph));
  Graph after = run_pass(expand_pass, kept);
  EXPECT_EQ(count(after, "glu"), 1);
  EXPECT_EQ(count(after, "softmax_cross_entropy"), 1);
  EXPECT_EQ(count(after, "rms_norm"), 0);
}

}  // namespace
}  // namespace ridge::passes
