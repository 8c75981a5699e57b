// SPDX-License-Identifier: Apache-2.0
// Renders the messages for each turn and finds how much of them the KV cache holds.
#include "serve/conversation.h"

#include <algorithm>
#include <utility>

namespace ridge::serve {

std::vector<text::ChatMessage> opening(std::string_view system) {
  if (system.empty()) return {};
  return {{"system", std::string(system)}};
}

Conversation::Conversation(Session& session,
                           const text::Tokenizer& tokenizer,
                           ChatFormat format,
                           std::string_view system)
    : session_(session),
      tokenizer_(tokenizer),
      format_(std::move(format)),
      opening_(opening(system)),
      messages_(opening_) {}

Turn Conversation::answer(std::string_view message,
                          const GenerateOptions& options,
                          const std::function<void(std::string_view)>& show) {
  std::vector<text::ChatMessage> messages = messages_;
  messages.push_back({"user", std::string(message)});
  Turn turn;
  turn.prompt = encode_chat(messages, format_, tokenizer_);
  if (std::ssize(turn.prompt) > session_.options().capacity) {
    turn.answer.finish_reason = "context";
    return turn;
  }
  // The messages are rendered and encoded as a whole, because templates may change earlier parts
  // (Mistral's moves the system message) and an answer may have other ids than its text. Only what
  // differs from the sequence in the cache is computed; usually that is the new message.
  auto [differ, in_cache] = std::ranges::mismatch(turn.prompt, held_);
  int64_t same = differ - turn.prompt.begin();
  same = std::min(same, std::ssize(turn.prompt) - 1);  // the last one's logits give the answer
  turn.held = session_.reusable(0, std::max<int64_t>(same, 0));
  held_.clear();  // in case the run fails
  turn.answer = generate(session_, tokenizer_, turn.prompt, turn.held, options, show);
  if (!turn.answer.ids.empty()) {
    held_ = turn.prompt;
    // The last token was sampled, but the model has not computed its keys and values.
    held_.insert(held_.end(), turn.answer.ids.begin(), turn.answer.ids.end() - 1);
  }
  messages_ = std::move(messages);
  messages_.push_back({"assistant", turn.answer.text});
  return turn;
}

void Conversation::clear() { messages_ = opening_; }

}  // namespace ridge::serve
