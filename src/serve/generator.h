// SPDX-License-Identifier: Apache-2.0
// One continuation of a prompt as text, token by token. Many at once are the scheduler's business.
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
  std::vector<std::string> stop;  // texts that end the answer and are no part of it
};

struct Generation {
  std::vector<int32_t> ids;  // chosen, with the one that ended it
  std::string text;
  std::string finish_reason;  // "stop": a token or text that ends; "length": max_tokens, or the
                              // context is full
  double prompt_ns = 0;       // to the first token
  double decode_ns = 0;       // from there to the last
};

// Calls `show` with valid UTF-8 as it is decided. Throws as Session::start does.
Generation generate(Session& session,
                    const text::Tokenizer& tokenizer,
                    std::span<const int32_t> prompt,
                    const GenerateOptions& options,
                    const std::function<void(std::string_view)>& show);

}  // namespace ridge::serve
