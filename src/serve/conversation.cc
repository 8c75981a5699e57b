// SPDX-License-Identifier: Apache-2.0
// Renders the messages for each turn.
#include "serve/conversation.h"

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
  // (Mistral's moves the system message) and an answer may have other ids than its text. The cache
  // finds what is as it was; usually only the new message is computed.
  turn.answer = generate(session_, tokenizer_, turn.prompt, options, show);
  messages_ = std::move(messages);
  messages_.push_back({"assistant", turn.answer.text});
  return turn;
}

void Conversation::clear() { messages_ = opening_; }

}  // namespace ridge::serve
