// SPDX-License-Identifier: Apache-2.0
// The text side of a model file: its tokenizer and the format of its chats. Not a subcommand.
#pragma once

#include <string>

#include "models/tokenizer_file.h"
#include "serve/conversation.h"

namespace ridge::apps {

// The template with this name or, if the name is empty, that of the file's Jinja source. Throws a
// usage Error if both are empty, or the template is unknown.
serve::ChatFormat chat_format(const std::string& name, const std::string& jinja);

// Throws a bad-file Error if it has tokens that the model does not have.
text::Tokenizer tokenizer_of(const models::ModelFile& file, models::TokenizerFile source);

}  // namespace ridge::apps
