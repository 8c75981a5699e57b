// SPDX-License-Identifier: Apache-2.0
// Tests of fuse_rope_append: the nodes between a merged projection and an attention over a KV cache
// become one kernel, with and without norms of heads.
#include "passes/decode_step.h"

namespace ridge::passes {
namespace {

TEST(FuseRopeAppend, MakesOneKernelALayer) {
  for (models::Family family :
       {models::Family::kLlama, models::Family::kQwen3, models::Family::kGemma3}) {
    DecodeStep step(family);
    Graph made = step.appended();
    EXPECT_EQ(count(made, "rope_append"), 2);
    for (const char* op : {"kv_append", "rope", "rope_qkv"}) EXPECT_EQ(count(made, op), 0) << op;
    bool is_gemma = family == models::Family::kGemma3;
    // Gemma has a norm of the first layer's input, and one after each half of both layers.
    EXPECT_EQ(count(made, "rms_norm"), is_gemma ? 1 + 2 * 2 : 1);
    EXPECT_LE(DecodeStep::distance(step.graph(), made), 1e-10);
  }
}

// Quants and their scales are written by the same kernel.
TEST(FuseRopeAppend, TakesCachesOfQuants) {
  for (DType cache : {DType::kI8, DType::kF8E4M3})
    for (models::Family family : {models::Family::kLlama, models::Family::kQwen3}) {
      DecodeStep step(family, cache);
      EXPECT_EQ(count(step.graph(), "kv_append"), 2);
      Graph made = step.appended();
      EXPECT_EQ(count(made, "rope_append"), 2);
      EXPECT_EQ(count(made, "kv_append"), 0);
      for (const Node& node : made.nodes) {
        if (node.op->name != "rope_append") continue;
        EXPECT_EQ(made.type(node.inputs[0]).dtype, cache);
        EXPECT_EQ(made.type(node.inputs[2]).dtype, DType::kBF16);
        ASSERT_EQ(node.outputs.size(), 5u);
        EXPECT_EQ(made.type(node.outputs[4]), made.type(node.inputs.back()));
      }
      EXPECT_LE(DecodeStep::distance(step.graph(), made), 1e-10);
    }
}

TEST(FuseRopeAppend, CostsLess) {
  DecodeStep step(models::Family::kGemma3);
  step.try_pass(cuda::fuse_rope_append_pass, step.graph());
}

}  // namespace
}  // namespace ridge::passes
