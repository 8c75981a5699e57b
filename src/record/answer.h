// SPDX-License-Identifier: Apache-2.0
// An answer that was generated, and the largest logits after a prompt.
#pragma once

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

}  // namespace ridge::record
