// SPDX-License-Identifier: Apache-2.0
// Joins the stream decoder and the search for stop texts.
#include "serve/answer_text.h"

#include <algorithm>
#include <utility>

namespace ridge::serve {
namespace {

bool ends(const text::TokenizerSpec& spec, int32_t token) {
  return token == spec.eos || std::ranges::count(spec.end_of_generation, token) > 0;
}

}  // namespace

AnswerText::AnswerText(const text::Tokenizer& tokenizer,
                       std::vector<std::string> stops,
                       bool ignores_end)
    : tokenizer_(tokenizer),
      decoder_(tokenizer, {.special = false, .continuation = true}),
      stop_(std::move(stops)),
      ignores_end_(ignores_end) {}

std::string AnswerText::push(int32_t token) {
  if (!ignores_end_ && ends(tokenizer_.spec(), token)) {
    has_ended_ = true;
    return "";
  }
  std::string text = stop_.push(decoder_.push(token));
  has_ended_ = stop_.is_stopped();
  return text;
}

std::string AnswerText::finish() {
  std::string text = stop_.push(decoder_.finish());
  return text + stop_.finish();
}

}  // namespace ridge::serve
