// SPDX-License-Identifier: Apache-2.0
// Tests of plans of ranks that share a model: what each sends, holds and computes.
#include "planning/tensor_plan.h"

#include <gtest/gtest.h>

#include "backends/null/null_backend.h"
#include "base/error.h"
#include "models/llama_shape.h"

namespace ridge::planning {
namespace {

constexpr int64_t kLayers = 2, kBatch = 3, kHidden = 32, kVocabulary = 64;

record::RankPlan plan(int64_t ranks) {
  // Vocabulary, hidden, layers, heads, KV heads, head size, feed-forward and context.
  const models::ModelFile file = models::ModelFile::of_shape(
      models::llama_shape("test", {kVocabulary, kHidden, kLayers, 4, 2, 8, 48, 64}));
  const auto target = backends::null::make_null_target({});
  serve::PhaseSetup setup;
  setup.batch = kBatch;
  setup.length = 16;
  const passes::Selection alone("fused", "+store_f32");
  setup.selection =
      passes::Selection("fused", fmt::format("+store_f32,+shard_tensor_parallel={}", ranks));
  return plan_tensor_ranks(file, setup, alone, *target, nullptr, [](auto...) {});
}

// A sum after attention and after the MLP of each layer, and the logits of all ranks.
TEST(TensorPlan, SendsTwoSumsALayerAndLogits) {
  const record::RankPlan four = plan(4);
  ASSERT_EQ(four.collectives.size(), 2u * kLayers + 1);
  for (size_t i = 0; i < 2 * kLayers; ++i) {
    EXPECT_EQ(four.collectives[i].op, "all_reduce");
    EXPECT_EQ(four.collectives[i].bytes, kBatch * kHidden * 4);
  }
  EXPECT_EQ(four.collectives.back().op, "all_gather");
  EXPECT_EQ(four.collectives.back().bytes, kBatch * kVocabulary / 4 * 4);
  EXPECT_EQ(plan(1).sent_bytes(), 0);
}

TEST(TensorPlan, RanksHoldLessThanTheModelAndComputeLittleTwice) {
  const record::RankPlan one = plan(1), two = plan(2);
  EXPECT_EQ(one.repeated_flops(), 0);
  EXPECT_GT(two.repeated_flops(), 0) << "norms";
  EXPECT_LT(two.repeated_flops(), 0.1 * two.one_rank_flops);
  EXPECT_LT(two.record.memory.owned_bytes, one.record.memory.owned_bytes);
  EXPECT_EQ(two.record.setting.task, "decode");
  EXPECT_GT(two.model_flops, 0);
}

TEST(TensorPlan, OtherNumbersOfRanksAreUsageErrors) { EXPECT_THROW(plan(3), Error); }

}  // namespace
}  // namespace ridge::planning
