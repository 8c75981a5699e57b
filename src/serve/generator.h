// SPDX-License-Identifier: Apache-2.0
// Continues one prompt as text, token by token.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/session.h"
#include "text/tokenizer.h"

namespace ridge::serve {

struct GenerateOptions {
  SamplingOptions sampling;
  int64_t max_tokens = 256;
  std::vector<std::string> stop;         // texts that end the answer, not included in it
  std::function<bool()> is_interrupted;  // called before each token; true ends the answer
};

struct Generation {
  int64_t held = 0;          // ids of the prompt that the KV cache held already
  std::vector<int32_t> ids;  // generated, including the token that ended it
  std::string text;
  // "stop": an end token or a stop text; "length": max_tokens reached, or the context is full;
  // "interrupted".
  std::string finish_reason;
  double prompt_ns = 0;  // time to the first token
  double decode_ns = 0;  // from the first token to the last
};

// Continues the prompt in slot 0. Calls `show` with valid UTF-8 as soon as the text is final. Throws the Errors of Session::start.
Generation generate(Session& session,
                    const text::Tokenizer& tokenizer,
                    std::span<const int32_t> prompt,
                    const GenerateOptions& options,
                    const std::function<void(std::string_view)>& show);

}  // namespace ridge::serve
