// SPDX-License-Identifier: Apache-2.0
// Tests of several processes that have some of a model's layers each: they train what one process
// does.
#include "apps/tensor_training_case.h"

namespace ridge::apps {
namespace {

using PipelineTrainingTest = TensorTrainingCase;
using Words = std::vector<std::string>;

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// Four micro-batches of one sequence.
constexpr Layout kOne = {.micro_batches = 4};
const Words kInterleaved = {"--pipeline-schedule", "interleaved"},
            kZeroBubble = {"--pipeline-schedule", "zero-bubble"};

TEST_F(PipelineTrainingTest, StagesTrainWhatOneProcessTrains) {
  const Words words = {"--preset", "tiny", "--warmup", "0", "--steps", "10", "--clip", "0.5"};
  const std::vector<double> one = train_logged(kOne, words);
  ASSERT_EQ(one.size(), 10u);
  for (const auto& [layout, more] :
       std::vector<Way>{{{.stages = 2, .micro_batches = 4}},
                        {{.stages = 4, .micro_batches = 4}},
                        {{.stages = 2, .micro_batches = 4}, kInterleaved},
                        {{.stages = 2, .micro_batches = 4}, kZeroBubble}})
    expect_same(one, train_logged(layout, with(words, more)), 1e-5 * one[0]);
}

// gemma3's table is its head, too: the first and the last stage add up its gradients.
TEST_F(PipelineTrainingTest, TiedTablesTrainTheSame) {
  write_ids();
  const Words words = {
      "--model", small("gemma3_bf16"), "--data", "ids.bin", "--steps", "4", "--clip", "0.5"};
  const std::vector<double> one = train(kOne, words);
  expect_same(one, train({.stages = 2, .micro_batches = 4}, words));
  expect_same(one, train({2, 1, 2, 2}, with(kZeroBubble, with(words, {"--zero", "2"}))));
}

TEST_F(PipelineTrainingTest, AdaptersOfEveryStageTrain) {
  expect_adapted("qwen3_bf16", {{{.stages = 2, .micro_batches = 4}},
                                {{2, 1, 2, 2}, {"--zero", "3"}},
                                {{1, 2, 2, 4}, {"--sequence-parallel"}}});
}

// Every axis at once: eight ranks.
TEST_F(PipelineTrainingTest, ProductsTrainTheSame) {
  const Words words = {"--steps", "4", "--clip", "0.1"};
  for (const auto& [layout, more] :
       std::vector<Way>{{{2, 2, 2, 2}, {"--zero", "2", "--sequence-parallel"}},
                        {{2, 1, 2, 2}, with(kInterleaved, {"--zero", "3"})},
                        {{1, 2, 2, 4}, with(kZeroBubble, {"--pass", "+recompute"})}})
    expect_same(train_tiny({.micro_batches = layout.micro_batches}, words),
                train_tiny(layout, with(words, more)));
}

// At this level no GEMM is chosen by timing.
TEST_F(PipelineTrainingTest, GiveTheSameBitsInEveryRun) {
  for (const Words& schedule : {Words(), kInterleaved, kZeroBubble}) {
    for (const char* name : {"first", "second"}) {
      std::filesystem::remove_all(folder_ / name);
      train_tiny({.stages = 2, .micro_batches = 4},
                 with({"--steps", "3", "--level", "kernels", "--save", name}, schedule));
    }
    EXPECT_FALSE(saved("first").empty());
    EXPECT_TRUE(saved("first") == saved("second"));
  }
}

// Two stages go on from the checkpoint of one process, and the other way round.
TEST_F(PipelineTrainingTest, ResumeInAnotherLayout) {
  const std::vector<Way> ways = {
      {kOne}, {{.stages = 2, .micro_batches = 4}, kZeroBubble}, {{2, 1, 2, 2}, {"--zero", "3"}}};
  expect_resumed(ways, [](size_t from, size_t to) { return from == 0 ? to == 1 : to == 0; });
}

TEST_F(PipelineTrainingTest, Train16BitFloats) {
  for (const char* dtype : {"bf16", "fp16"}) {
    const Words words = {"--steps", "4", "--dtype", dtype};
    expect_same(train_tiny(kOne, words), train_tiny({.stages = 2, .micro_batches = 4}, words),
                2e-3);
  }
}

TEST_F(PipelineTrainingTest, OtherNumbersOfStagesAreUsageErrors) {
  const auto error = [&](Words words) {
    const Output output =
        run(with({"train", "--preset", "tiny", "--device", "cpu", "--steps", "1"}, words),
            {.environment = kOnAnyMachine});
    EXPECT_EQ(output.code, 2) << output.err;
    return output.err;
  };
  EXPECT_NE(error({"--pipeline-parallel", "5"}).find("expected at most 4 parts"),
            std::string::npos);
  EXPECT_NE(error({"--pipeline-parallel", "2", "--pipeline-schedule", "gpipe"})
                .find("expected 1f1b, interleaved or zero-bubble"),
            std::string::npos);
  EXPECT_NE(error({"--pipeline-schedule", "zero-bubble"}).find("--pipeline-parallel of 2"),
            std::string::npos);
}

}  // namespace
}  // namespace ridge::apps
