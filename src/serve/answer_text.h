// SPDX-License-Identifier: Apache-2.0
// Decodes the tokens of an answer to text as they come: whole characters, up to a stop text or an
// end-of-generation token. Chooses no tokens.
#pragma once

#include <string>
#include <vector>

#include "serve/stop_text.h"
#include "text/stream_decoder.h"

namespace ridge::serve {

class AnswerText {
 public:
  // The tokenizer must outlive it. With `ignores_end`, end-of-generation tokens do not end the
  // answer. Throws as StopText does.
  AnswerText(const text::Tokenizer& tokenizer,
             std::vector<std::string> stops,
             bool ignores_end = false);

  // Adds a token. Returns the text, valid UTF-8, that became final.
  std::string push(int32_t token);
  // Whether a token or a stop text has ended the answer.
  bool has_ended() const { return has_ended_; }
  // Returns the text that was held back. Call it once, when the answer has ended.
  std::string finish();

 private:
  const text::Tokenizer& tokenizer_;
  text::StreamDecoder decoder_;
  StopText stop_;
  bool ignores_end_ = false;
  bool has_ended_ = false;
};

}  // namespace ridge::serve
