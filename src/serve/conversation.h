// SPDX-License-Identifier: Apache-2.0
// A chat: messages in the format of a model, and answers that continue the sequence of the turns
// before. Reads no input and prints nothing.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "serve/chat_prompt.h"
#include "serve/generator.h"
#include "serve/session.h"

namespace ridge::serve {

// The messages before the user's first one: the system message, or nothing if it is empty.
std::vector<text::ChatMessage> opening(std::string_view system);

// One turn: the model's whole input and its answer.
struct Turn {
  std::vector<int32_t> prompt;
  Generation answer;
};

// The session and the tokenizer must outlive it. Slot 0 of the session belongs to it.
class Conversation {
 public:
  Conversation(Session& session,
               const text::Tokenizer& tokenizer,
               ChatFormat format,
               std::string_view system);

  // Adds the user's message and the answer. If they are longer than the session's capacity, the
  // answer is empty, its finish_reason is "context", and the conversation stays as it was.
  Turn answer(std::string_view message,
              const GenerateOptions& options,
              const std::function<void(std::string_view)>& show);
  // Forgets all messages but the system message.
  void clear();

 private:
  Session& session_;
  const text::Tokenizer& tokenizer_;
  ChatFormat format_;
  std::vector<text::ChatMessage> opening_, messages_;
};

}  // namespace ridge::serve
