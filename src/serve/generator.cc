// SPDX-License-Identifier: Apache-2.0
// The generation loop: choose a token, decode its text, check for the end.
#include "serve/generator.h"

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "serve/answer_text.h"

namespace ridge::serve {

Generation generate(Session& session,
                    const text::Tokenizer& tokenizer,
                    std::span<const int32_t> prompt,
                    const GenerateOptions& options,
                    const std::function<void(std::string_view)>& show) {
  if (options.max_tokens < 0)
    throw usage_error("[max-tokens] expected at least 0, got {}", options.max_tokens);
  AnswerText answer(tokenizer, options.stop);
  Generation made;
  made.finish_reason = "length";
  if (options.max_tokens == 0) return made;
  auto add = [&](std::string_view text) {
    made.text += text;
    if (!text.empty() && show) show(text);
  };
  double begin = now_ns();
  Prompt first{0, prompt, options.sampling};
  made.ids.reserve(static_cast<size_t>(std::min(options.max_tokens, session.options().capacity)));
  int32_t token = session.start({&first, 1})[0];
  made.prompt_ns = now_ns() - begin;
  made.cached_tokens = session.blocks().cached_tokens(0);
  begin = now_ns();
  for (const int64_t slot = 0;;) {
    made.ids.push_back(token);
    add(answer.push(token));
    if (answer.has_ended()) {
      made.finish_reason = "stop";
      break;
    }
    if (static_cast<int64_t>(made.ids.size()) >= options.max_tokens || session.room(slot) < 1)
      break;
    if (options.is_interrupted && options.is_interrupted()) {
      made.finish_reason = "interrupted";
      break;
    }
    session.step({&slot, 1}, {&token, 1});
  }
  made.decode_ns = now_ns() - begin;
  add(answer.finish());
  return made;
}

}  // namespace ridge::serve
