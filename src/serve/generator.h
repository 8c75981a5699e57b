// SPDX-License-Identifier: Apache-2.0
// Generates the continuation of one prompt as text, token by token.
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
  int64_t cached_tokens = 0;  // prompt tokens that the prefix cache held
  std::vector<int32_t> ids;   // generated ids, including the one that ended the text
  std::string text;
  // "stop" (end token or stop text), "length" (max_tokens or the context), or "interrupted".
  std::string finish_reason;
  double prompt_ns = 0;  // time to the first token
  double decode_ns = 0;  // from the first token to the last
};

// Continues the prompt in slot 0. Calls `show` with final, valid UTF-8. Throws as Session::start.
Generation generate(Session& session,
                    const text::Tokenizer& tokenizer,
                    std::span<const int32_t> prompt,
                    const GenerateOptions& options,
                    const std::function<void(std::string_view)>& show);

}  // namespace ridge::serve
