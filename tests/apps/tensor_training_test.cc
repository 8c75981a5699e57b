// SPDX-License-Identifier: Apache-2.0
// Tests of several processes that train one model together, alone and beside others with batches of
// their own: they train what one process does.
#include "apps/tensor_training_case.h"

namespace ridge::apps {
namespace {

using TensorTrainingTest = TensorTrainingCase;

TEST_F(TensorTrainingTest, TrainWhatOneProcessTrains) {
  const std::vector<std::string> words = {"--preset", "tiny", "--warmup", "0", "--steps", "10"};
  const std::vector<double> one = train_logged({}, words);
  ASSERT_EQ(one.size(), 10u);
  for (const Layout& each : {Layout{1, 2}, Layout{1, 4}, Layout{2, 2}})
    expect_same(one, train_logged(each, words), 1e-5 * one[0]);
}

TEST_F(TensorTrainingTest, EveryLevelAndMicroBatchesWithClippingTrainTheSame) {
  for (const auto& [layout, more] :
       std::vector<Way>{{{1, 2}, {"--level", "baseline", "--clip", "0.5"}},
                        {{2, 2}, {"--level", "kernels", "--micro-batches", "2", "--clip", "0.1"}},
                        {{1, 2}, {"--pass", "+recompute", "--clip", "0.1"}}}) {
    std::vector<std::string> words = more;
    words.insert(words.end(), {"--steps", "5"});
    expect_same(train_tiny({}, words), train_tiny(layout, words));
  }
}

TEST_F(TensorTrainingTest, SequencePartsTrainTheSame) {
  const std::vector<std::string> words = {"--steps", "6", "--clip", "0.1"};
  std::vector<std::string> parts = words;
  parts.emplace_back("--sequence-parallel");
  const std::vector<double> one = train_tiny({}, words);
  for (const Layout& each : {Layout{1, 4}, Layout{2, 2}}) expect_same(one, train_tiny(each, parts));
  parts.insert(parts.end(), {"--pass", "+recompute", "--level", "baseline"});
  expect_same(one, train_tiny({1, 2}, parts));
}

TEST_F(TensorTrainingTest, ShareOutTheirStatesToo) {
  const std::vector<std::string> words = {"--steps", "6", "--micro-batches", "2", "--clip", "0.1"};
  const std::vector<double> one = train_tiny({}, words);
  for (const char* stage : {"1", "2", "3"}) {
    std::vector<std::string> more = words;
    more.insert(more.end(), {"--zero", stage});
    expect_same(one, train_tiny({2, 2}, more));
  }
}

// At this level no GEMM is chosen by timing.
TEST_F(TensorTrainingTest, GiveTheSameBitsInEveryRun) {
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{}, {"--sequence-parallel"}}) {
    for (const char* name : {"first", "second"}) {
      std::vector<std::string> words = {"--steps", "3", "--level", "kernels", "--save", name};
      words.insert(words.end(), more.begin(), more.end());
      std::filesystem::remove_all(folder_ / name);
      train_tiny({2, 2}, words);
    }
    EXPECT_FALSE(saved("first").empty());
    EXPECT_TRUE(saved("first") == saved("second"));
  }
}

TEST_F(TensorTrainingTest, Train16BitFloats) {
  for (const char* dtype : {"bf16", "fp16"}) {
    const std::vector<std::string> words = {"--steps", "4", "--dtype", dtype};
    expect_same(train_tiny({}, words), train_tiny({1, 2}, words), 2e-3);
  }
}

// Gemma has one KV head here and norms after its halves, Qwen biases and norms of heads. Each model
// in one way; tensor_training_slow_test.cc has all of them.
TEST_F(TensorTrainingTest, FamiliesAreFineTunedAsByOneProcess) {
  expect_fine_tuned("llama_fp32", {{{1, 2}}});
  expect_fine_tuned("gemma3_bf16", {{{1, 4}}});
  expect_fine_tuned("gemma3_cap_fp32", {{{1, 2}}});
  expect_fine_tuned("qwen2_fp32", {{{1, 4}, {"--sequence-parallel"}}});
  expect_fine_tuned("qwen3_bf16", {{{2, 2}}});
}

// Ranks beyond the two KV heads share them, and add up their gradients.
TEST_F(TensorTrainingTest, AdaptersAreTrainedAsByOneProcess) {
  expect_adapted("llama_fp32", {{{1, 4}}});
  expect_adapted("qwen3_bf16", {{{1, 2}, {"--sequence-parallel"}}});
}

// A layout goes on from the checkpoint of another one.
TEST_F(TensorTrainingTest, ResumeInAnyLayout) {
  const size_t ways = resumed_ways().size();
  expect_resumed(resumed_ways(), [=](size_t from, size_t to) { return to == (from + 1) % ways; });
}

// Two ranks write two shards, and the same layout goes on bit by bit.
TEST_F(TensorTrainingTest, ResumeBitByBit) {
  write_ids();
  const auto train_to = [&](const char* folder, const char* steps, std::vector<std::string> more) {
    more.insert(more.end(), {"--model", small("llama_fp32"), "--data", "ids.bin", "--save-every",
                             "2", "--level", "kernels", "--checkpoints", folder, "--steps", steps});
    train({1, 2}, more);
  };
  train_to("whole", "6", {});
  train_to("broken", "4", {});
  train_to("broken", "6", {"--resume"});
  int files = 0;
  for (const auto& each : std::filesystem::directory_iterator(folder_ / "whole/step-00000006")) {
    const std::string name = each.path().filename();
    files += name.find("-of-00002.safetensors") != std::string::npos ? 1 : 0;
    EXPECT_TRUE(files::contents(each.path()) ==
                files::contents(folder_ / "broken/step-00000006" / name))
        << name;
  }
  EXPECT_EQ(files, 4) << "of weights and of moments";
  EXPECT_EQ(run({"logits", "whole/step-00000006", "--ids", "1,2"}).code, 0);
}

TEST_F(TensorTrainingTest, OtherNumbersOfRanksAreUsageErrors) {
  const auto error = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"train", "--preset", "tiny", "--device", "cpu", "--steps", "1"});
    const Output output = run(words, {.environment = kOnAnyMachine});
    EXPECT_EQ(output.code, 2) << output.err;
    return output.err;
  };
  EXPECT_NE(error({"--tensor-parallel", "3"}).find("ranks, which divide"), std::string::npos);
  EXPECT_NE(error({"--tensor-parallel", "2", "--zero", "1"}).find("[zero] expected several ranks"),
            std::string::npos);
  EXPECT_NE(error({"--sequence-parallel"}).find("expected ranks that share a model"),
            std::string::npos);
  EXPECT_NE(error({"--tensor-parallel", "2", "--sequence-parallel", "--seq-len", "3",
                   "--batch-size", "1"})
                .find("expected tokens of a batch that 2 ranks divide, got 3"),
            std::string::npos);
}

}  // namespace
}  // namespace ridge::apps
