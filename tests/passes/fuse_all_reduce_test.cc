// SPDX-License-Identifier: Apache-2.0
// Tests of fuse_all_reduce: on ranks that share a model, each sum of o and down becomes one kernel
// with the norm after it, and the results stay.
#include "passes/decode_step.h"

namespace ridge::passes {
namespace {

DecodeStep one_of_two_ranks(models::Family family) {
  return DecodeStep(family, DType::kF32, ",+shard_tensor_parallel=2");
}

TEST(FuseAllReduce, MakesOneKernelOfEachSum) {
  DecodeStep step = one_of_two_ranks(models::Family::kLlama);
  ASSERT_EQ(count(step.graph(), "all_reduce"), 2 * 2);
  const Graph made = step.try_pass(cuda::fuse_all_reduce_pass, step.graph());
  EXPECT_EQ(count(made, "all_reduce_add_rms_norm"), 2 * 2);
  EXPECT_EQ(count(made, "all_reduce") + count(made, "add_rms_norm"), 0);
}

TEST(FuseAllReduce, LeavesSumsThatAreNormedFirst) {
  DecodeStep step = one_of_two_ranks(models::Family::kGemma3);
  const Graph made = step.run(cuda::fuse_all_reduce_pass, step.graph());
  EXPECT_EQ(print(made), print(step.graph()));
}

TEST(FuseAllReduce, LeavesASumThatIsReadElsewhere) {
  DecodeStep step = one_of_two_ranks(models::Family::kLlama);
  Graph graph = step.graph();
  for (const Node& node : graph.nodes)
    if (node.op->name == "all_reduce") {
      graph.outputs.push_back(node.outputs[0]);
      break;
    }
  const Graph made = step.run(cuda::fuse_all_reduce_pass, graph);
  EXPECT_EQ(count(made, "all_reduce"), 1);
  EXPECT_LE(DecodeStep::distance(graph, made), 1e-10);
}

}  // namespace
}  // namespace ridge::passes
