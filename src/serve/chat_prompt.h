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
};

// The messages in the model's chat format, up to where the next answer begins; special tokens are
// part of the text.
std::vector<int32_t> encode_chat(std::span<const text::ChatMessage> messages,
                                 const ChatFormat& format,
                                 const text::Tokenizer& tokenizer);

}  // namespace ridge::serve
