// SPDX-License-Identifier: Apache-2.0
// Renders conversations as the prompt text that a model was trained on. Known templates are
// recognised from the Jinja source in the model file and rendered natively, in time and size linear
// in the messages. There is no Jinja interpreter.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace ridge::text {

struct ChatMessage {
  std::string role;  // "system", "user" or "assistant"
  std::string content;
};

struct ChatOptions {
  bool add_generation_prompt = true;  // end where the assistant's answer begins
  std::string bos = "";               // the tokens' texts, for templates that write them
  std::string eos = "";
  std::string date = "26 Jul 2024";  // Llama 3.1's default; see uses_date()
};

// A prompt, and where in it the messages' own words stand: in order and disjoint.
struct RenderedChat {
  std::string text;
  std::vector<TextRange> said;
};

class ChatTemplate {
 public:
  enum class Format : uint8_t {
    kChatMl,
    kLlama2,
    kLlama3,
    kLlama31,
    kGemma,   // 1 and 2: no system message
    kGemma3,  // the system message goes before the first user message
    kMistralV1,
    kMistralV3,
    kMistralNemo,
    kQwen25,  // ChatML; the template also has tools, which are never given
    kQwen3,   // ChatML in which earlier answers lose what was thought before them
  };

  // Throws usage_error if the template is too long, or unknown (the error lists the known names).
  static ChatTemplate recognise(std::string_view jinja);

  // "chatml", "smollm2", "llama2", "llama3", "llama3.1", "gemma", "gemma3", "mistral",
  // "mistral-v3", "mistral-nemo", "qwen2.5", "qwen3".
  static ChatTemplate named(std::string_view name);
  static std::vector<std::string_view> names();

  // The prompt, as Hugging Face's apply_chat_template renders it. Encode it with special tokens
  // parsed, except in what was said, and without BOS unless writes_bos() is false and the model
  // expects one. Throws
  // usage_error for an unknown role, roles that do not alternate where the template requires it, a
  // system message that the template does not support, no message at all, or more than kMaxMessages
  // or kMaxBytes.
  RenderedChat render(std::span<const ChatMessage> messages, const ChatOptions& options) const;

  Format format() const { return format_; }
  bool writes_bos() const { return writes_bos_; }
  // Whether the template writes today's date ("%d %b %Y").
  bool uses_date() const { return uses_date_; }
  // The system message that a template of ChatML or Qwen 2.5 writes if the conversation has none;
  // empty if none.
  const std::string& default_system() const { return default_system_; }

  static constexpr size_t kMaxMessages = 65536;
  static constexpr size_t kMaxBytes = size_t{1} << 28;
  static constexpr size_t kMaxTemplateBytes = size_t{1} << 20;

 private:
  Format format_ = Format::kChatMl;
  bool writes_bos_ = false;
  bool uses_date_ = false;
  std::string default_system_;
  std::string answer_begin_;  // Qwen 3: written before what is generated
};

}  // namespace ridge::text
