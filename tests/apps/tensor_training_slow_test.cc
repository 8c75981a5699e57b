// SPDX-License-Identifier: Apache-2.0
// Tests of several processes that train one model together: each family in each layout, and each
// layout from the checkpoint of each other one.
#include "apps/tensor_training_case.h"

namespace ridge::apps {
namespace {

class TensorTrainingSlowTest : public TensorTrainingCase {
 protected:
  static std::vector<Way> ways(const Layout& of_parts) {
    return {{{1, 2}}, {{1, 4}}, {{2, 2}}, {of_parts, {"--sequence-parallel"}}};
  }
};

TEST_F(TensorTrainingSlowTest, FamiliesAreFineTunedAsByOneProcess) {
  for (const char* model :
       {"llama_fp32", "gemma3_bf16", "gemma3_cap_fp32", "qwen2_fp32", "qwen3_bf16"}) {
    SCOPED_TRACE(model);
    expect_fine_tuned(model, ways({1, 4}));
  }
}

TEST_F(TensorTrainingSlowTest, AdaptersAreTrainedAsByOneProcess) {
  for (const char* model : {"llama_fp32", "qwen3_bf16"}) {
    SCOPED_TRACE(model);
    expect_adapted(model, ways({1, 2}));
  }
}

TEST_F(TensorTrainingSlowTest, EveryLevelAndMicroBatchesWithClippingTrainTheSame) {
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{
           {"--level", "baseline", "--clip", "0.5"},
           {"--level", "kernels", "--micro-batches", "2", "--clip", "0.1"},
           {"--pass", "+recompute", "--clip", "0.1"}}) {
    std::vector<std::string> words = more;
    words.insert(words.end(), {"--steps", "5"});
    const std::vector<double> one = train_tiny({}, words);
    for (const Layout& each : {Layout{1, 2}, Layout{2, 2}})
      expect_same(one, train_tiny(each, words));
  }
}

TEST_F(TensorTrainingSlowTest, ResumeInAnyLayout) {
  expect_resumed(resumed_ways(), [](size_t, size_t) { return true; });
}

}  // namespace
}  // namespace ridge::apps
