// SPDX-License-Identifier: Apache-2.0
// The text of an answer as its tokens come: whole characters only, cut at stop texts and at the
// tokens that end a generation. Chooses no tokens.
#pragma once

#include <string>
#include <vector>

#include "serve/stop_text.h"
#include "text/stream_decoder.h"

namespace ridge::serve {

class AnswerText {
 public:
  // The tokenizer must outlive it. With `ignores_end`, the tokens that end a generation are tokens
  // like any other. Throws as StopText does.
  AnswerText(const text::Tokenizer& tokenizer,
             std::vector<std::string> stops,
             bool ignores_end = false);

  // Adds a token and returns the text, valid UTF-8, that is final now.
  std::string push(int32_t token);
  // Whether a token or a stop text has ended the answer.
  bool has_ended() const { return has_ended_; }
  // At the end, for whatever reason: the text that was held back.
  std::string finish();

 private:
  const text::Tokenizer& tokenizer_;
  text::StreamDecoder decoder_;
  StopText stop_;
  bool ignores_end_ = false;
  bool has_ended_ = false;
};

}  // namespace ridge::serve
