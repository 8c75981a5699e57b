// SPDX-License-Identifier: Apache-2.0
// A chat: it keeps the messages of all turns and generates answers. It does no input or output.
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

// Returns the messages before the user's first one: the system message, or none if it is empty.
std::vector<text::ChatMessage> opening(std::string_view system);

// The model's whole input of one turn, and its answer.
struct Turn {
  std::vector<int32_t> prompt;
  Generation answer;
};

// The session and the tokenizer must outlive the conversation, which uses slot 0 of the session.
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
