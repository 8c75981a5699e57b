// SPDX-License-Identifier: Apache-2.0
// An answer that was generated, the largest logits after a prompt, and the likelihood of a text.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "record/figures.h"

namespace ridge::record {

struct AnswerTimings {
  double load_ns = 0, prompt_ns = 0, decode_ns = 0;  // the last: of the tokens after the first
  int64_t prompt_tokens = 0, generated_tokens = 0;

  int64_t later_tokens() const { return generated_tokens > 1 ? generated_tokens - 1 : 0; }
  static double per_second(int64_t count, double ns) {
    return ns > 0 ? static_cast<double>(count) * 1e9 / ns : 0;
  }
};

template <class See>
void figures(const See& see, const AnswerTimings& r) {
  const int64_t later = r.later_tokens();
  see({"load_ms", "ms", "opening the model"}, r.load_ns / 1e6);
  see("prompt_tokens", r.prompt_tokens);
  see({"ttft_ms", "ms", "time to the first token"}, r.prompt_ns / 1e6);
  see("prompt_tokens_per_s", AnswerTimings::per_second(r.prompt_tokens, r.prompt_ns));
  see("generated_tokens", r.generated_tokens);
  see({"decode_ms", "ms", "the tokens after the first"}, r.decode_ns / 1e6);
  see({"tpot_ms", "ms", "time of each token after the first"},
      later > 0 ? r.decode_ns / 1e6 / static_cast<double>(later) : 0.0);
  see("decode_tokens_per_s", AnswerTimings::per_second(later, r.decode_ns));
}

struct Answer {
  std::vector<int32_t> prompt_ids, ids;
  std::string text, finish_reason;
  AnswerTimings timings;
};

template <class See>
void figures(const See& see, const Answer& r) {
  see("prompt_ids", r.prompt_ids), see("ids", r.ids), see("text", r.text);
  see("finish_reason", r.finish_reason), see("timings", r.timings);
}

// The largest logits after a prompt of so many tokens, in descending order.
struct TopLogits {
  struct Logit {
    int64_t id = 0;
    float logit = 0;
    std::optional<std::string> text;  // if there is a tokenizer
  };
  int64_t tokens = 0;
  double log_sum_exp = 0;
  std::vector<Logit> top;
};

// The likelihood of a text under a model, and under the same model with coarser arithmetic.
struct TextScore {
  int64_t tokens = 0, counted = 0, pieces = 0;
  double nll = 0;  // the sum over the counted tokens
  std::string cache_dtype = {};
  int activation_bits = 0;  // GEMMs with quantized weights on a CPU; else 0
  double seconds = 0;

  double mean() const { return nll / static_cast<double>(counted); }
  double perplexity() const { return std::exp(mean()); }
  double tokens_per_s() const { return static_cast<double>(tokens) / seconds; }
};

template <class See>
void figures(const See& see, const TextScore& r) {
  see({"tokens", "", "of the text"}, r.tokens);
  see({"counted", "", "tokens with a prediction: all but the first of each piece"}, r.counted);
  see({"pieces", "", "parts of a text that is longer than the context"}, r.pieces);
  see({"nll_mean", "", "mean negative log-likelihood, by natural logarithms"}, r.mean());
  see("perplexity", r.perplexity()), see("cache_dtype", r.cache_dtype);
  see("activation_bits", r.activation_bits), see("seconds", r.seconds);
  see("tokens_per_s", r.tokens_per_s());
}

}  // namespace ridge::record
