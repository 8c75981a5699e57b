// SPDX-License-Identifier: Apache-2.0
// Tests of fuse_append_attention: rope_append and the attention after it become one kernel per
// layer, with the same logits, tokens and caches.
#include "passes/decode_step.h"

namespace ridge::passes {
namespace {

TEST(FuseAppendAttention, MakesOneKernelALayer) {
  for (models::Family family :
       {models::Family::kLlama, models::Family::kQwen3, models::Family::kGemma3}) {
    DecodeStep step(family);
    Graph made = step.run(cuda::fuse_append_attention_pass, step.appended());
    EXPECT_EQ(count(made, "append_attention"), 2);
    for (const char* op : {"rope_append", "cached_attention"}) EXPECT_EQ(count(made, op), 0) << op;
    EXPECT_LE(DecodeStep::distance(step.graph(), made), 1e-10);
  }
}

TEST(FuseAppendAttention, LeavesWhatIsExpanded) {
  DecodeStep step(models::Family::kLlama);
  Graph made = step.run(cuda::fuse_append_attention_pass, step.graph());
  EXPECT_EQ(print(made), print(step.graph()));  // there is no rope_append yet
}

TEST(FuseAppendAttention, CostsLess) {
  DecodeStep step(models::Family::kGemma3);
  step.try_pass(cuda::fuse_append_attention_pass, step.appended());
}

}  // namespace
}  // namespace ridge::passes
