// SPDX-License-Identifier: Apache-2.0
// Chooses the chat template and dates it. Not a subcommand.
#include "apps/chat_format.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <utility>

#include "base/error.h"

namespace ridge::apps {

void add_chat_format_options(Command app, ChatFormatOptions& options) {
  app.add_option("--chat-template", options.name,
                 "use the chat template of this name (default: the file's)");
  app.add_flag("--parse-special", options.parses_messages,
               "read control tokens such as <|im_end|> in messages as tokens, as transformers and "
               "llama-server do: a message can then forge turns");
}

serve::ChatFormat chat_format(const ChatFormatOptions& options, const std::string& jinja) {
  const std::string& name = options.name;
  if (jinja.empty() && name.empty())
    throw usage_error(
        "[chat] the model file has no chat template; choose one with --chat-template: {}",
        fmt::join(text::ChatTemplate::names(), ", "));
  serve::ChatFormat format{
      name.empty() ? text::ChatTemplate::recognise(jinja) : text::ChatTemplate::named(name), "",
      options.parses_messages};
  if (format.chat.uses_date())
    format.date = fmt::format("{:%d %b %Y}", fmt::localtime(std::time(nullptr)));
  return format;
}

text::Tokenizer tokenizer_of(const models::ModelFile& file, models::TokenizerFile source) {
  text::Tokenizer tokenizer = models::make_tokenizer(std::move(source));
  if (tokenizer.vocab_size() > file.config().vocabulary)
    throw file_error("[model] {}: the tokenizer has {} tokens, but the model has {}",
                     file.path().string(), tokenizer.vocab_size(), file.config().vocabulary);
  return tokenizer;
}

}  // namespace ridge::apps
