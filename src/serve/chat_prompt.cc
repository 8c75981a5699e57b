// SPDX-License-Identifier: Apache-2.0
// Renders the template and encodes the text.
#include "serve/chat_prompt.h"

namespace ridge::serve {

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
