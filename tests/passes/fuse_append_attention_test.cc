// SPDX-License-Identifier: Apache-2.0
// fuse_append_attention: behind a rope_append one kernel a layer instead of two, with the same
// logits, tokens and caches.
#include <gtest/gtest.h>

#include "passes/decode_step.h"

namespace ridge::passes {
namespace {

namespace cuda = backends::cuda;

TEST(FuseAppendAttention, MakesOneKernelALayer) {
  for (models::Family family : {models::Family::kLlama, models::Family::kGemma3}) {
    DecodeStep step(family);
    Graph appended = step.run(cuda::fuse_rope_append_pass(), step.graph());
    Graph made = step.run(cuda::fuse_append_attention_pass(), appended);
    EXPECT_EQ(count(made, "append_attention"), 2);
    for (const char* op : {"rope_append", "cached_attention"}) EXPECT_EQ(count(made, op), 0) << op;
    EXPECT_LE(DecodeStep::distance(step.graph(), made), 1e-10);
  }
}

TEST(FuseAppendAttention, LeavesWhatIsExpanded) {
  DecodeStep step(models::Family::kLlama);
  Graph made = step.run(cuda::fuse_append_attention_pass(), step.graph());
  EXPECT_EQ(print(made), print(step.graph()));  // nothing is appended and rotated at once yet
}

TEST(FuseAppendAttention, CostsLess) {
  DecodeStep step(models::Family::kGemma3);
  step.try_pass(cuda::fuse_append_attention_pass(),
                step.run(cuda::fuse_rope_append_pass(), step.graph()));
}

TEST(FuseAppendAttention, AsksTheTarget) {
  DecodeStep step(models::Family::kGemma3);
  Graph appended = step.run(cuda::fuse_rope_append_pass(), step.graph());
  LoadGraph load;
  PassContext context{ops::table(), target(), load};
  EXPECT_EQ(print(cuda::fuse_append_attention_pass().run(appended, context)), print(appended));
}

}  // namespace
}  // namespace ridge::passes
