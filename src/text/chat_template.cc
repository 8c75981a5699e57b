// SPDX-License-Identifier: Apache-2.0
// Renders the known chat formats. Each function writes exactly what its template writes.
#include "text/chat_template.h"

#include <algorithm>

#include "base/error.h"
#include "base/printable.h"
#include "text/utf8.h"

namespace ridge::text {
namespace {

using Format = ChatTemplate::Format;
using Messages = std::span<const ChatMessage>;

// The characters that Python's str.strip and Jinja's trim remove: white space and the four
// separators U+001C to U+001F.
bool is_stripped(char32_t c) {
  return char_class(c) == CharClass::kSpace || (c >= 0x1C && c <= 0x1F);
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty()) {
    CodePoint c = decode_utf8(text, 0);
    if (!c.valid || !is_stripped(c.value)) break;
    text.remove_prefix(c.size);
  }
  while (!text.empty()) {
    size_t at = text.size() - 1;
    while (at > 0 && text.size() - at < 4 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
    CodePoint c = decode_utf8(text, at);
    if (!c.valid || at + c.size != text.size() || !is_stripped(c.value)) break;
    text.remove_suffix(c.size);
  }
  return text;
}

bool begins_with_system(Messages messages) { return messages.front().role == "system"; }

void check_alternation(Messages messages) {
  for (size_t i = 0; i < messages.size(); ++i)
    if (messages[i].role != (i % 2 == 0 ? "user" : "assistant"))
      throw usage_error(
          "[chat] this model's roles alternate user, assistant, user, ...; message {} is from the "
          "{}",
          i, messages[i].role);
}

// A part of the prompt that comes from the messages.
struct Said {
  std::string_view text;
};

class Writer {
 public:
  template <typename... Parts>
  void add(const Parts&... parts) {
    (append(parts), ...);
  }
  RenderedChat take() { return std::move(chat_); }

 private:
  void append(std::string_view text) { chat_.text.append(text); }
  void append(const Said& said) {
    const size_t begin = chat_.text.size();
    append(said.text);
    if (!said.text.empty()) chat_.said.push_back({begin, chat_.text.size()});
  }

  RenderedChat chat_;
};

void chatml(Writer& out, Messages messages, bool prompt, const std::string& default_system) {
  if (!default_system.empty() && !begins_with_system(messages))
    out.add("<|im_start|>system\n", default_system, "<|im_end|>\n");
  for (const ChatMessage& m : messages)
    out.add("<|im_start|>", m.role, "\n", Said{m.content}, "<|im_end|>\n");
  if (prompt) out.add("<|im_start|>assistant\n");
}

std::string_view without_line_breaks(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of('\n'), text.size());
  const size_t end = text.find_last_not_of('\n');
  return end == std::string_view::npos ? std::string_view() : text.substr(begin, end + 1 - begin);
}

// An answer of Qwen 3: what was thought, and what was said then.
struct Answer {
  explicit Answer(std::string_view text) : said(text) {
    constexpr std::string_view kBegin = "<think>", kEnd = "</think>";
    const size_t end = text.find(kEnd);
    if (end == std::string_view::npos) return;
    thought = text.substr(0, end);
    if (const size_t begin = thought.rfind(kBegin); begin != std::string_view::npos)
      thought.remove_prefix(begin + kBegin.size());
    thought = without_line_breaks(thought);
    said.remove_prefix(text.rfind(kEnd) + kEnd.size());
    said.remove_prefix(std::min(said.find_first_not_of('\n'), said.size()));
  }
  std::string_view thought, said;
};

bool is_tool_response(std::string_view text) {
  return text.starts_with("<tool_response>") && text.ends_with("</tool_response>");
}

// Thoughts are kept after the last question of the user, and the last answer has some, if empty.
void qwen3(Writer& out, Messages messages, bool prompt, const std::string& answer_begin) {
  size_t question = messages.size() - 1;
  for (size_t i = messages.size(); i-- > 0;)
    if (messages[i].role == "user" && !is_tool_response(messages[i].content)) {
      question = i;
      break;
    }
  for (size_t i = 0; i < messages.size(); ++i) {
    const ChatMessage& m = messages[i];
    if (m.role != "assistant") {
      out.add("<|im_start|>", m.role, "\n", Said{m.content}, "<|im_end|>\n");
      continue;
    }
    const Answer answer(m.content);
    out.add("<|im_start|>assistant\n");
    if (i > question && (i + 1 == messages.size() || !answer.thought.empty()))
      out.add("<think>\n", Said{answer.thought}, "\n</think>\n\n",
              Said{answer.said.substr(
                  std::min(answer.said.find_first_not_of('\n'), answer.said.size()))});
    else
      out.add(Said{answer.said});
    out.add("<|im_end|>\n");
  }
  if (prompt) out.add(answer_begin);
}

void llama2(Writer& out, Messages messages, const ChatOptions& options) {
  std::string system;
  if (begins_with_system(messages)) {
    system = "<<SYS>>\n" + messages.front().content + "\n<</SYS>>\n\n";
    messages = messages.subspan(1);
  }
  check_alternation(messages);
  for (const ChatMessage& m : messages) {
    std::string content = &m == messages.data() ? system + m.content : m.content;
    if (m.role == "user")
      out.add(options.bos, "[INST] ", Said{trimmed(content)}, " [/INST]");
    else
      out.add(" ", Said{trimmed(content)}, " ", options.eos);
  }
}

void llama3_messages(Writer& out, Messages messages, bool prompt) {
  for (const ChatMessage& m : messages)
    out.add("<|start_header_id|>", m.role, "<|end_header_id|>\n\n", Said{trimmed(m.content)},
            "<|eot_id|>");
  if (prompt) out.add("<|start_header_id|>assistant<|end_header_id|>\n\n");
}

void llama31(Writer& out, Messages messages, const ChatOptions& options) {
  std::string_view system;
  if (begins_with_system(messages)) {
    system = trimmed(messages.front().content);
    messages = messages.subspan(1);
  }
  out.add("<|start_header_id|>system<|end_header_id|>\n\n",
          "Cutting Knowledge Date: December 2023\nToday Date: ", options.date, "\n\n", Said{system},
          "<|eot_id|>");
  llama3_messages(out, messages, options.add_generation_prompt);
}

void gemma(Writer& out, Messages messages, bool prompt, bool takes_system) {
  std::string system;
  if (begins_with_system(messages)) {
    if (!takes_system) throw usage_error("[chat] this model takes no system message");
    system = messages.front().content + "\n\n";
    messages = messages.subspan(1);
  }
  check_alternation(messages);
  for (const ChatMessage& m : messages) {
    out.add("<start_of_turn>", m.role == "assistant" ? "model" : m.role, "\n");
    if (&m == messages.data()) out.add(Said{system});
    out.add(Said{trimmed(m.content)}, "<end_of_turn>\n");
  }
  if (prompt) out.add("<start_of_turn>model\n");
}

void mistral_v1(Writer& out, Messages messages, const ChatOptions& options) {
  if (begins_with_system(messages)) throw usage_error("[chat] this model takes no system message");
  check_alternation(messages);
  for (const ChatMessage& m : messages) {
    if (m.role == "user")
      out.add("[INST] ", Said{m.content}, " [/INST]");
    else
      out.add(Said{m.content}, options.eos);
  }
}

// The system message is written before the last user message, and nowhere if the last message is
// from the assistant.
void mistral_v3(Writer& out, Messages messages, const ChatOptions& options, bool nemo) {
  const ChatMessage* system = nullptr;
  if (begins_with_system(messages)) {
    system = &messages.front();
    messages = messages.subspan(1);
  }
  check_alternation(messages);
  for (const ChatMessage& m : messages) {
    if (m.role == "user") {
      out.add(nemo ? "[INST]" : "[INST] ");
      if (system != nullptr && &m == &messages.back()) out.add(Said{system->content}, "\n\n");
      out.add(Said{m.content}, "[/INST]");
    } else if (nemo) {
      out.add(Said{m.content}, options.eos);
    } else {
      out.add(" ", Said{trimmed(m.content)}, options.eos);
    }
  }
}

void check(Messages messages) {
  if (messages.empty()) throw usage_error("[chat] expected at least one message, got none");
  if (messages.size() > ChatTemplate::kMaxMessages)
    throw usage_error("[chat] expected at most {} messages, got {}", ChatTemplate::kMaxMessages,
                      messages.size());
  size_t bytes = 0;
  for (const ChatMessage& m : messages) {
    if (m.role != "system" && m.role != "user" && m.role != "assistant")
      throw usage_error("[chat] expected the role system, user or assistant, got {}",
                        printable(m.role));
    if (m.content.size() > ChatTemplate::kMaxBytes - bytes)
      throw usage_error("[chat] expected messages of at most {} bytes in all",
                        ChatTemplate::kMaxBytes);
    bytes += m.content.size();
  }
}

}  // namespace

RenderedChat ChatTemplate::render(Messages messages, const ChatOptions& options) const {
  check(messages);
  Writer out;
  bool prompt = options.add_generation_prompt;
  // Llama 2 writes BOS before each user message.
  if (writes_bos_ && format_ != Format::kLlama2) out.add(options.bos);
  switch (format_) {
    case Format::kChatMl:
    case Format::kQwen25:
      chatml(out, messages, prompt, default_system_);
      break;
    case Format::kQwen3:
      qwen3(out, messages, prompt, answer_begin_);
      break;
    case Format::kLlama2:
      llama2(out, messages, options);
      break;
    case Format::kLlama3:
      llama3_messages(out, messages, prompt);
      break;
    case Format::kLlama31:
      llama31(out, messages, options);
      break;
    case Format::kGemma:
      gemma(out, messages, prompt, false);
      break;
    case Format::kGemma3:
      gemma(out, messages, prompt, true);
      break;
    case Format::kMistralV1:
      mistral_v1(out, messages, options);
      break;
    case Format::kMistralV3:
      mistral_v3(out, messages, options, false);
      break;
    case Format::kMistralNemo:
      mistral_v3(out, messages, options, true);
      break;
  }
  return out.take();
}

}  // namespace ridge::text
