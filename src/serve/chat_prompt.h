// SPDX-License-Identifier: Apache-2.0
// Messages in the chat format of a model, as ids. Knows no session.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace ridge::serve {

struct ChatFormat {
  text::ChatTemplate chat;
  std::string date;  // for templates that write it
  // Control tokens written in a message become their ids, as with transformers and llama-server: a
  // message can then end its turn and begin another one.
  bool parses_messages = false;
};

// The messages in the model's chat format, up to where the next answer begins.
std::vector<int32_t> encode_chat(std::span<const text::ChatMessage> messages,
                                 const ChatFormat& format,
                                 const text::Tokenizer& tokenizer);

}  // namespace ridge::serve
