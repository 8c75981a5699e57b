// SPDX-License-Identifier: Apache-2.0
// Encodes chat messages as ids in the chat format of a model. Knows no session.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace ridge::serve {

struct ChatFormat {
  text::ChatTemplate chat;
  std::string date;  // the date that some templates write; empty: the template's default
  // If true, control tokens written in a message become their ids, as with transformers and
  // llama-server, so that a message can end its turn and begin another one.
  bool parses_messages = false;
};

struct ChatFormatOptions {
  std::string name;              // the template to use instead of the file's
  bool parses_messages = false;  // see ChatFormat
};
// The named template or, without a name, that of the file's Jinja source, with today's date. Throws
// a usage Error if both are empty, or the template is unknown.
ChatFormat chat_format(const ChatFormatOptions& options, const std::string& jinja);

// Returns the ids of the messages up to the point where the next answer begins.
std::vector<int32_t> encode_chat(std::span<const text::ChatMessage> messages,
                                 const ChatFormat& format,
                                 const text::Tokenizer& tokenizer);

}  // namespace ridge::serve
