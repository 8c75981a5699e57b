// SPDX-License-Identifier: Apache-2.0
// Gradient accumulation: m micro-batches and one update are the same as one step on all their rows.
#include <gtest/gtest.h>

#include "base/error.h"
#include "train/small_run.h"

namespace ridge::train {
namespace {

constexpr int kSteps = 12;
// Gradients of four batches are added one after the other instead of in one GEMM: a few roundings,
// which grow over the steps as in pass_equality_test.cc.
constexpr double kRounding = 1e-4;

StepOptions options(int64_t batch_size, int64_t micro_batches, double clip_norm = 0) {
  StepOptions options = small_step(kLearningByHeart);
  options.batch_size = batch_size;
  options.micro_batches = micro_batches;
  options.optimizer.clip_norm = clip_norm;
  return options;
}

std::vector<double> losses(const StepOptions& options,
                           std::string_view level,
                           std::string_view switches = "") {
  return FixedRun(small_config(), options, level, switches).steps(kSteps);
}

class MicroBatches : public testing::TestWithParam<const char*> {};

TEST_P(MicroBatches, FourEqualOneBigBatch) {
  for (double clip_norm : {0.0, 0.5})
    EXPECT_LE(largest_difference(losses(options(8, 1, clip_norm), GetParam()),
                                 losses(options(2, 4, clip_norm), GetParam())),
              kRounding)
        << "clip " << clip_norm;
}

TEST_P(MicroBatches, EightOfOneRowEqualFourOfTwo) {
  EXPECT_LE(
      largest_difference(losses(options(2, 4), GetParam()), losses(options(1, 8), GetParam())),
      kRounding);
}

TEST_P(MicroBatches, FollowBf16) {
  std::vector<double> one = losses(options(8, 1), GetParam(), "+autocast_bf16");
  std::vector<double> four = losses(options(2, 4), GetParam(), "+autocast_bf16");
  EXPECT_NEAR(one[0], four[0], 0.02);
  EXPECT_LE(largest_difference(one, four), 0.2);
}

INSTANTIATE_TEST_SUITE_P(Levels,
                         MicroBatches,
                         testing::Values("baseline", "fused", "kernels", "compiled"));

TEST(MicroBatches, AreTwoGraphsOnOneStore) {
  FixedRun run(small_config(), options(2, 4), "compiled", "");
  ASSERT_EQ(run.program().graphs().size(), 2u);
  EXPECT_EQ(run.program().graph(0).repeat, 4);
  EXPECT_EQ(run.program().graph(1).repeat, 1);
  EXPECT_TRUE(run.program().graph(1).graph().outputs.empty());
  EXPECT_TRUE(run.store().has("model.embed_tokens.weight.gradient"));
  run.step();
  for (float x : run.store().read_floats("model.embed_tokens.weight.gradient"))
    ASSERT_EQ(x, 0) << "not cleared";
}

TEST(MicroBatches, RefusesNone) {
  EXPECT_THROW(FixedRun(small_config(), options(2, 0), "baseline", ""), Error);
  EXPECT_THROW(FixedRun(small_config(), options(0, 1), "baseline", ""), Error);
}

// A pipeline adds up the gradients of micro-batches, each of which has its share of the mean.
TEST(MicroBatches, OfAPipelineHaveTheirShareOfTheLoss) {
  StepSetup setup{small_config(), options(1, 4), passes::Selection("baseline", "")};
  setup.step.shard.stage = 1, setup.step.shard.stages = 2;
  const TrainingStep step = build_step(setup, *cpu_backend(1));
  std::vector<double> filled;
  for (const StepGraph& each : step.graphs)
    for (const Node& node : each.graph.nodes)
      if (node.op->name == "fill") filled.push_back(node.attrs.real("value"));
  EXPECT_EQ(std::ranges::count(filled, 0.25), 4);
}

}  // namespace
}  // namespace ridge::train
