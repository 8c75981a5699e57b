// SPDX-License-Identifier: Apache-2.0
// Tests of fuse_skinny_gemm: a decode step is left with six kernels per layer and the same
// results.
#include "passes/decode_step.h"

namespace ridge::passes {
namespace {

constexpr double kRounding = 1e-10;  // sums in double, in another order

TEST(FuseSkinnyGemm, LeavesSixKernelsOfALayer) {
  for (models::Family family :
       {models::Family::kLlama, models::Family::kQwen3, models::Family::kGemma3}) {
    DecodeStep step(family);
    Graph made = step.run(cuda::fuse_skinny_gemm_pass, step.appended());
    bool is_gemma = family == models::Family::kGemma3;
    // Gemma norms the outputs of the o and down projections before it adds them, so these stay
    // plain.
    EXPECT_EQ(count(made, "skinny_gemm"), is_gemma ? 2 * 2 + 1 : 4 * 2 + 1);
    EXPECT_EQ(count(made, "matmul"), is_gemma ? 2 * 2 : 0);
    for (const char* op : {"rms_norm", "add_rms_norm", "add", "glu", "rope", "rope_qkv"})
      EXPECT_EQ(count(made, op), 0) << op;
    EXPECT_EQ(count(made, "skinny_gemm") + count(made, "matmul"), 4 * 2 + 1);
    EXPECT_EQ(count(made, "rope_append") + count(made, "cached_attention"), 2 * 2);
    EXPECT_LE(DecodeStep::distance(step.graph(), made), kRounding);
  }
}

TEST(FuseSkinnyGemm, KeepsWhatIsReadElsewhere) {
  DecodeStep step(models::Family::kLlama);
  Graph graph = step.graph();
  // The first layer's normed input is also an output of the graph.
  for (const Node& node : graph.nodes)
    if (node.op->name == "rms_norm") {
      graph.outputs.push_back(node.outputs[0]);
      break;
    }
  Graph made = step.run(cuda::fuse_skinny_gemm_pass, graph);
  EXPECT_EQ(count(made, "rms_norm"), 1);
  EXPECT_LE(DecodeStep::distance(graph, made), kRounding);
}

TEST(FuseSkinnyGemm, FusesTheActivationOfTensOfRowsAlone) {
  DecodeStep step(models::Family::kLlama);
  step.take_gates_only();
  Graph made = step.run(cuda::fuse_skinny_gemm_pass, step.graph());
  EXPECT_EQ(count(made, "skinny_gemm"), 2);
  EXPECT_EQ(count(made, "matmul"), 3 * 2 + 1);
  EXPECT_EQ(count(made, "glu"), 0);
  EXPECT_EQ(count(made, "rms_norm") + count(made, "add_rms_norm"), 2 * 2 + 1);
  EXPECT_LE(DecodeStep::distance(step.graph(), made), kRounding);
}

TEST(FuseSkinnyGemm, CostsLess) {
  DecodeStep step(models::Family::kLlama);
  step.try_pass(cuda::fuse_skinny_gemm_pass, step.graph());
}

}  // namespace
}  // namespace ridge::passes
