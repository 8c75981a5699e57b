// SPDX-License-Identifier: Apache-2.0
// Tests of inference by stages: processes that have some of the layers each answer as one does.
#include "apps/shared_model_run.h"

namespace ridge::apps {
namespace {

using PipelineInferenceTest = SharedModelTest;

// Stages compute what one process computes, in the same order: all figures are equal to the digit.
TEST_F(PipelineInferenceTest, FamiliesHaveTheLogitsOfOneProcess) {
  for (const char* model : {"llama_fp32", "gemma3_bf16", "qwen2_window_fp32", "qwen3_bf16"}) {
    SCOPED_TRACE(model);
    const std::vector<std::string> words = {"logits", small(model), "--ids", "1,2,3,4,5,6,7"};
    EXPECT_EQ(answer(1, words)["top"], answer({1, 2}, words)["top"]);
  }
}

TEST_F(PipelineInferenceTest, ThreeStagesGenerateTheTextOfOneProcess) {
  make_model(4);
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{
           {}, {"--temperature", "1", "--seed", "5", "--top-p", "0.9"}, {"--no-kv-cache"}}) {
    std::vector<std::string> words = {"generate", "model", "abc", "--max-tokens", "24"};
    words.insert(words.end(), more.begin(), more.end());
    const json one = answer(1, words), all = answer({1, 3}, words);
    EXPECT_EQ(one["ids"].size(), 24u);
    EXPECT_EQ(one["ids"], all["ids"]);
    EXPECT_EQ(one["text"], all["text"]);
  }
}

// Chunks of a prompt pass through the stages; only the last one ends in a token.
TEST_F(PipelineInferenceTest, PromptsInChunksHaveTheLogitsOfOneProcess) {
  const std::vector<std::string> words = {"logits", small("llama3_bf16_sharded"), "--chunk", "3",
                                          "--ids",  "1,2,3,4,5,6,7,8,9,10,11"};
  EXPECT_EQ(answer(1, words)["top"], answer({1, 2}, words)["top"]);
}

TEST_F(PipelineInferenceTest, StagesOfRanksThatShareTheirLayers) {
  expect_same_logits({2, 2}, {"logits", small("llama_fp32"), "--ids", "1,2,3,4,5,6,7"});
}

TEST_F(PipelineInferenceTest, PerplexityIsThatOfOneProcess) {
  const std::vector<std::string> words = {"perplexity", small("llama3_bf16_sharded"), "--ids",
                                          "1,2,3,4,5,6,7,8,9,10,11,12"};
  EXPECT_EQ(answer(1, words)["perplexity"], answer({1, 2}, words)["perplexity"]);
}

// A stage draws its own weights, and its KV cache has its own layers.
TEST_F(PipelineInferenceTest, BenchesAShapeWithoutWeights) {
  const std::vector<std::string> words = {"bench",
                                          "model",
                                          small("llama_fp32") + "/config.json",
                                          "--random-weights",
                                          "-p",
                                          "8",
                                          "-n",
                                          "4",
                                          "-r",
                                          "1"};
  const json one = answer(1, words), all = answer({1, 2}, words);
  ASSERT_EQ(all["tests"].size(), 2u) << all.dump();
  EXPECT_LT(all["owned_bytes"], one["owned_bytes"]);
}

TEST_F(PipelineInferenceTest, ServesWhatOneProcessGenerates) {
  make_model(4);
  expect_serves_the_same({1, 2}, {{"logprobs", 2}});
}

TEST_F(PipelineInferenceTest, MoreStagesThanLayersAreAUsageError) {
  const Output output = share({1, 4}, {"logits", small("llama_fp32"), "--ids", "1"});
  EXPECT_EQ(output.code, 2);
  EXPECT_NE(output.err.find("[pipeline-parallel] expected at most 3 parts"), std::string::npos)
      << output.err;
  EXPECT_EQ(output.out, "");
}

}  // namespace
}  // namespace ridge::apps
