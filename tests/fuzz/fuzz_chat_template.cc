// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: the bytes are a chat template, then a conversation. Both are either refused as
// usage Errors or rendered, and the size of the output is bounded by the messages.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/refusal.h"
#include "text/chat_template.h"

namespace {

using ridge::ExitCode;
using ridge::fuzz::allow_refusal;
using ridge::fuzz::expect;
using ridge::text::ChatMessage;
using ridge::text::ChatOptions;
using ridge::text::ChatTemplate;
using ridge::text::RenderedChat;
using ridge::text::TextRange;

constexpr size_t kMostAdded = 256;  // bytes that a format adds per message, and to the whole

// Fields end with a zero byte; the first letter of a field sets its role.
std::vector<ChatMessage> conversation(std::string_view bytes) {
  std::vector<ChatMessage> messages;
  while (!bytes.empty()) {
    size_t end = std::min(bytes.find('\0'), bytes.size());
    std::string field(bytes.substr(0, end));
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
    char role = field.empty() ? 'u' : field[0];
    messages.push_back({role == 's'   ? "system"
                        : role == 'a' ? "assistant"
                        : role == '?' ? field
                                      : "user",
                        field.empty() ? "" : field.substr(1)});
  }
  return messages;
}

void render(const ChatTemplate& chat, const std::vector<ChatMessage>& messages) {
  size_t bound = kMostAdded + chat.default_system().size();
  for (const ChatMessage& m : messages) bound += m.content.size() + kMostAdded;
  for (bool prompt : {false, true}) {
    ChatOptions options;
    options.add_generation_prompt = prompt;
    options.bos = "<s>";
    options.eos = "</s>";
    const RenderedChat rendered = chat.render(messages, options);
    expect(rendered.text.size() <= bound);
    size_t at = 0;
    for (const TextRange& said : rendered.said) {
      expect(at <= said.begin && said.begin < said.end);
      at = said.end;
    }
    expect(at <= rendered.text.size());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  size_t split = std::min(bytes.find('\0'), size);
  std::vector<ChatMessage> messages = conversation(bytes.substr(std::min(split + 1, size)));
  allow_refusal([&] { render(ChatTemplate::recognise(bytes.substr(0, split)), messages); },
                ExitCode::kUsage);
  for (std::string_view name : ChatTemplate::names())
    allow_refusal([&] { render(ChatTemplate::named(name), messages); }, ExitCode::kUsage);
  return 0;
}
