// SPDX-License-Identifier: Apache-2.0
// Models whose vocabulary is padded beyond their tokenizer: the ids without a token are never
// sampled, scored or biased. Where a step throws for one request all the same, the others go on.
#include <gtest/gtest.h>

#include <cmath>

#include "serve/answer_reader.h"
#include "serve/bytes_tokenizer.h"
#include "serve/engine.h"
#include "serve/real_model.h"

namespace ridge::serve {
namespace {

class PaddedVocabularyTest : public testing::Test {
 protected:
  PaddedVocabularyTest()
      : file_(models::ModelFile::open(data_folder() + "llama_fp32")),
        tokens_(file_.config().vocabulary - 40),
        tokenizer_(bytes_tokenizer(tokens_, false)) {}

  // With `is_limited` false, the model's file does not know of the padding, so that a sampled id
  // without a token makes the tokenizer throw in the engine's step.
  void open(bool is_limited) {
    if (is_limited) file_.limit_tokens(tokens_);
    SessionOptions of = at_level("compiled", 96);
    of.slots = 3;
    of.prefix_caching = true;
    session_ = std::make_unique<Session>(file_, of, cpu_backend());
    engine_ = std::make_unique<Engine>(*session_, tokenizer_, EngineOptions{});
  }
  std::unique_ptr<AnswerReader> ask(const SamplingOptions& sampling, int64_t top_logprobs = -1) {
    return std::make_unique<AnswerReader>(*engine_, Request{.prompt = {5, 6, 7},
                                                            .sampling = sampling,
                                                            .max_tokens = 24,
                                                            .ignores_end = true,
                                                            .top_logprobs = top_logprobs});
  }

  models::ModelFile file_;
  int64_t tokens_;
  text::Tokenizer tokenizer_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(PaddedVocabularyTest, IdsWithoutATokenAreNeitherSampledNorScored) {
  open(true);
  std::vector<std::unique_ptr<AnswerReader>> readers;
  for (int64_t seed = 0; seed < 12; ++seed)
    readers.push_back(ask({.temperature = 100, .seed = seed}, tokens_ + 40));
  for (auto& each : readers) {
    const Delta& answer = each->finished();
    EXPECT_EQ(answer.finish, Finish::kLength) << answer.error;
    EXPECT_EQ(answer.tokens, 24);
    for (const TokenScores& scores : answer.scores) {
      EXPECT_LT(scores.chosen.id, tokens_);
      ASSERT_EQ(std::ssize(scores.top), tokens_);
      double sum = 0;
      for (const ScoredToken& each_token : scores.top) {
        EXPECT_LT(each_token.id, tokens_);
        sum += std::exp(each_token.logprob);
      }
      EXPECT_NEAR(sum, 1, 1e-9);
    }
  }
  EXPECT_EQ(engine_->counts().internal_errors, 0);
}

TEST_F(PaddedVocabularyTest, IdsWithoutATokenAreRefused) {
  open(true);
  EXPECT_EQ(engine_->vocabulary(), tokens_);
  const auto nobody = std::make_shared<OutputQueue>([] {});
  const int32_t padding = static_cast<int32_t>(tokens_);
  EXPECT_THROW(engine_->submit({.prompt = {5, padding}, .max_tokens = 1}, nobody), Error);
  const auto biased = ask({.logit_bias = {{padding, 100}}});
  EXPECT_EQ(biased->finished().finish, Finish::kFailed);
  EXPECT_NE(biased->finished().error.find("logit-bias"), std::string::npos);
}

TEST_F(PaddedVocabularyTest, AFaultEndsItsRequestAlone) {
  open(false);
  const auto before = ask({.temperature = 0, .logit_bias = {{9, 100}}});
  const auto faulty = ask({.logit_bias = {{static_cast<int32_t>(tokens_), 100}}});
  const auto beside = ask({.temperature = 0, .logit_bias = {{9, 100}}});
  EXPECT_EQ(faulty->finished().finish, Finish::kFailed);
  EXPECT_NE(faulty->finished().error.find("expected a token id below"), std::string::npos);
  for (const auto* each : {&before, &beside}) {
    EXPECT_EQ((*each)->finished().finish, Finish::kLength);
    EXPECT_EQ((*each)->finished().tokens, 24);
  }
  const auto after = ask({.temperature = 0, .logit_bias = {{9, 100}}});
  EXPECT_EQ(after->finished().text, before->finished().text);
  const EngineCounts counts = engine_->counts();
  EXPECT_EQ(counts.internal_errors, 1);
  EXPECT_EQ(counts.running, 0);
}

}  // namespace
}  // namespace ridge::serve
