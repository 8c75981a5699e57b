// SPDX-License-Identifier: Apache-2.0
// The text side of a model file: its tokenizer and the format of its chats. Not a subcommand.
#pragma once

#include <string>

#include "apps/command.h"
#include "models/tokenizer_file.h"
#include "serve/conversation.h"

namespace ridge::apps {

struct ChatFormatOptions {
  std::string name;              // the template to use instead of the file's
  bool parses_messages = false;  // see serve::ChatFormat
};
// --chat-template, --parse-special
void add_chat_format_options(Command app, ChatFormatOptions& options);
// The named template or, without a name, that of the file's Jinja source. Throws a usage Error if
// both are empty, or the template is unknown.
serve::ChatFormat chat_format(const ChatFormatOptions& options, const std::string& jinja);

// Throws a bad-file Error if it has tokens that the model does not have.
text::Tokenizer tokenizer_of(const models::ModelFile& file, models::TokenizerFile source);

}  // namespace ridge::apps
