// SPDX-License-Identifier: Apache-2.0
// Renders the messages for each turn.
#include "serve/conversation.h"

#include <utility>

namespace ridge::serve {

std::vector<text::ChatMessage> opening(std::string_view system) {
  if (system.empty()) return {};
  return {{"system", std::string(system)}};
}

std::vector<int32_t> encode_chat(std::span<const text::ChatMessage> messages,
                                 const ChatFormat& format,
                                 const text::Tokenizer& tokenizer) {
  const text::TokenizerSpec& spec = tokenizer.spec();
  auto written = [&](int32_t id) {
    return id == text::kNoToken ? std::string() : spec.tokens[static_cast<size_t>(id)];
  };
  text::ChatOptions options{.bos = written(spec.bos), .eos = written(spec.eos)};
  if (!format.date.empty()) options.date = format.date;
  return tokenizer.encode(
      format.chat.render(messages, options),
      {.parse_special = true, .add_bos = !format.chat.writes_bos() && spec.add_bos});
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
