// SPDX-License-Identifier: Apache-2.0
// Published models against Hugging Face transformers on the same dequantized weights: last logits,
// greedy continuations and likelihoods of texts.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "serve/real_model.h"
#include "serve/text_score.h"

namespace ridge::serve {

class PublishedModelCase : public PublishedModelTest {
 protected:
  // The first `count` texts of at most so many tokens, with what transformers computed for them.
  std::vector<nlohmann::json> texts(size_t count = SIZE_MAX,
                                    int64_t most_tokens = INT64_MAX) const {
    std::vector<nlohmann::json> found;
    for (const auto& text : expected_)
      if (found.size() < count && text["tokens"].get<int64_t>() <= most_tokens)
        found.push_back(text);
    return found;
  }

  void expect_last_logits(const std::vector<nlohmann::json>& texts) const {
    Session session(*file_, at_level("compiled", 1024), cpu_backend());
    for (const auto& text : texts) {
      std::vector<float> logits = last_logits(session, ids_of(text["ids"]));
      for (const auto& top : text["last_top"])
        EXPECT_NEAR(logits[top[0].get<size_t>()], top[1].get<double>(), kLogits)
            << text["text"].get<std::string>().substr(0, 40);
      EXPECT_NEAR(log_sum_exp(logits), text["last_logsumexp"].get<double>(), kLogits);
    }
  }

  void expect_continuations(const std::vector<nlohmann::json>& texts) const {
    Session session(*file_, at_level("compiled", 1024), cpu_backend());
    for (const auto& text : texts) {
      if (!text.contains("greedy")) continue;
      std::vector<int32_t> want = ids_of(text["greedy"]);
      std::vector<int32_t> got = greedy(session, ids_of(text["ids"]), want.size());
      for (size_t i = 0; i < want.size() && text["margins"][i].get<double>() >= kTie; ++i)
        ASSERT_EQ(got[i], want[i]) << "token " << i << " after " << text["text"];
    }
  }

  void expect_likelihoods(const std::vector<nlohmann::json>& texts) const {
    Session session(*file_, at_level("compiled", 1024), cpu_backend());
    for (const auto& text : texts) {
      Likelihood got = score(session, ids_of(text["ids"]));
      EXPECT_EQ(got.tokens + 1, text["tokens"].get<int64_t>());
      EXPECT_NEAR(got.nll / static_cast<double>(got.tokens), text["nll_mean"].get<double>(),
                  kLikelihood);
    }
  }

  // With activations rounded to 8 bits.
  void expect_close_when_rounded(const std::vector<nlohmann::json>& texts) const {
    SessionOptions options = at_level("compiled", 1024);
    options.selection = passes::Selection("compiled", "-tune_gemm,+quantize_activations");
    Session session(*file_, options, cpu_backend());
    for (const auto& text : texts) {
      std::vector<int32_t> ids = ids_of(text["ids"]);
      std::vector<float> logits = last_logits(session, ids);
      for (const auto& top : text["last_top"])
        EXPECT_NEAR(logits[top[0].get<size_t>()], top[1].get<double>(), GetParam().rounded_logits)
            << text["text"].get<std::string>().substr(0, 40);
      if (text["tokens"].get<int64_t>() < kLongText) continue;
      Likelihood got = score(session, ids);
      EXPECT_NEAR(got.nll / static_cast<double>(got.tokens), text["nll_mean"].get<double>(),
                  kRoundedLikelihood);
    }
  }

 private:
  static constexpr double kRoundedLikelihood = 0.01;
  static constexpr int64_t kLongText = 500;
};

}  // namespace ridge::serve
