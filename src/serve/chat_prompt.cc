// SPDX-License-Identifier: Apache-2.0
// Chooses the template and dates it, renders it and encodes the text.
#include "serve/chat_prompt.h"

#include <fmt/chrono.h>
#include <fmt/ranges.h>

#include <ctime>

#include "base/error.h"

namespace ridge::serve {

ChatFormat chat_format(const ChatFormatOptions& options, const std::string& jinja) {
  const std::string& name = options.name;
  if (jinja.empty() && name.empty())
    throw usage_error(
        "[chat] the model file has no chat template; choose one with --chat-template: {}",
        fmt::join(text::ChatTemplate::names(), ", "));
  ChatFormat format{
      name.empty() ? text::ChatTemplate::recognise(jinja) : text::ChatTemplate::named(name), "",
      options.parses_messages};
  if (format.chat.uses_date())
    format.date = fmt::format("{:%d %b %Y}", fmt::localtime(std::time(nullptr)));
  return format;
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
  const text::RenderedChat chat = format.chat.render(messages, options);
  text::EncodeOptions encoding{.parse_special = true,
                               .add_bos = !format.chat.writes_bos() && spec.add_bos};
  if (!format.parses_messages) encoding.plain = chat.said;
  return tokenizer.encode(chat.text, encoding);
}

}  // namespace ridge::serve
