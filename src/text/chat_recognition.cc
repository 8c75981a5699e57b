// SPDX-License-Identifier: Apache-2.0
// Recognises the chat format of a Jinja template. A template is known if it contains the statements
// of its format and none that would change the output. Spelling (white space, kind of quotes) does
// not matter.
#include <algorithm>
#include <array>
#include <optional>

#include "base/error.h"
#include "base/printable.h"
#include "text/chat_template.h"

namespace ridge::text {
namespace {

using Format = ChatTemplate::Format;

constexpr std::string_view kSmolLm2System =
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face";

constexpr std::string_view kQwen25System =
    "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.";
constexpr std::string_view kQwen3AnswerBegin = "<|im_start|>assistant\n";
// A template may write after it nothing, a thought that begins, or an empty one.
constexpr std::array<std::string_view, 3> kQwen3Thoughts = {"", "<think>\n",
                                                            "<think>\n\n</think>\n\n"};

struct Known {
  std::string_view name;
  Format format;
  bool writes_bos;
};
constexpr std::array<Known, 12> kKnown = {{
    {"chatml", Format::kChatMl, false},
    {"smollm2", Format::kChatMl, false},
    {"llama2", Format::kLlama2, true},
    {"llama3", Format::kLlama3, true},
    {"llama3.1", Format::kLlama31, true},
    {"gemma", Format::kGemma, true},
    {"gemma3", Format::kGemma3, true},
    {"mistral", Format::kMistralV1, true},
    {"mistral-v3", Format::kMistralV3, true},
    {"mistral-nemo", Format::kMistralNemo, true},
    {"qwen2.5", Format::kQwen25, false},
    {"qwen3", Format::kQwen3, false},
}};

// Parts of the squeezed source (see `squeezed`): it must contain all of `holds` and none of
// `lacks`.
struct Fingerprint {
  Format format;
  std::array<std::string_view, 5> holds;
  std::array<std::string_view, 7> lacks;
};
constexpr std::array<Fingerprint, 12> kFingerprints = {{
    {Format::kQwen3,
     {"{%-else%}{%-ifmessages[0].role=='system'%}{{-'<|im_start|>system\n'+messages[0].content+'<|im_"
      "end|>\n'}}{%-endif%}{%-endif%}{%-setns=namespace(multi_step_tool=true,last_query_index="
      "messages|length-1)%}{%-formessageinmessages[::-1]%}",
      "not(message['content'].startswith('<tool_response>')andmessage['content'].endswith('</tool_"
      "response>'))%}{%-setns.multi_step_tool=false%}{%-setns.last_query_index=index%}",
      ".split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n')%}",
      ".split('</think>')[-1].lstrip('\n')%}",
      "{%-ifloop.index0>ns.last_query_index%}{%-ifloop.lastor(notloop.lastandreasoning_content)%}{{-"
      "'<|im_start|>'+message['role']+'\n<think>\n'+reasoning_content.strip('\n')+'\n</think>\n\n'+"
      "content.lstrip('\n')}}{%-else%}{{-'<|im_start|>'+message['role']+'\n'+content}}{%-endif%}{%-"
      "else%}{{-'<|im_start|>'+message['role']+'\n'+content}}{%-endif%}{%-ifmessage.tool_calls%}"},
     {"trim"}},
    {Format::kQwen25,
     {"{%-iftools%}",
      "{%-else%}{%-ifmessages[0]['role']=='system'%}{{-'<|im_start|>system\n'+messages[0]['content']+"
      "'<|im_end|>\n'}}{%-else%}{{-'<|im_start|>system\n",
      "<|im_end|>\n'}}{%-endif%}{%-endif%}{%-formessageinmessages%}{%-if(message['role']=='user')or("
      "message['role']=='system'andnotloop.first)or(message['role']=='assistant'andnotmessage.tool_"
      "calls)%}{{-'<|im_start|>'+message['role']+'\n'+message['content']+'<|im_end|>\n'}}{%-elif",
      "{%-endfor%}{%-ifadd_generation_prompt%}{{-'<|im_start|>assistant\n'}}{%-endif%}"},
     {"trim", "strip"}},
    // Qwen 3 without thoughts: as Qwen 2.5, without a default.
    {Format::kQwen25,
     {"{%-iftools%}",
      "{%-else%}{%-ifmessages[0].role=='system'%}{{-'<|im_start|>system\n'+messages[0].content+'<|im_"
      "end|>\n'}}{%-endif%}{%-endif%}{%-formessageinmessages%}",
      "{%-if(message['role']=='user')or(message['role']=='system'andnotloop.first)%}{{-'<|im_start|>'+"
      "message['role']+'\n'+content+'<|im_end|>\n'}}{%-elifmessage['role']=='assistant'%}{{-'<|im_"
      "start|>'+message['role']+'\n'+content}}{%-ifmessage.tool_calls%}"},
     {"trim", "strip", "think"}},
    {Format::kLlama31,
     {"'<|start_header_id|>system<|end_header_id|>\n\n'",
      "'Cutting Knowledge Date: December 2023\n'", "'Today Date: '+date_string+'\n\n'",
      "system_message=messages[0]['content']|trim",
      "'<|start_header_id|>'+message['role']+'<|end_header_id|>\n\n'+message['content']|trim+'<|"
      "eot_id|>'"},
     {}},
    {Format::kLlama3,
     {"'<|start_header_id|>'+message['role']+'<|end_header_id|>\n\n'+message['content']|trim+'<|"
      "eot_id|>'",
      "'<|start_header_id|>assistant<|end_header_id|>\n\n'"},
     {"'system", "tool", "message['role']=="}},
    {Format::kGemma3,
     {"first_user_prefix=messages[0]['content']+'\n\n'",
      "'<start_of_turn>'+role+'\n'+(first_user_prefixifloop.firstelse'')",
      "message['content']|trim", "'<end_of_turn>\n'", "role='model'"},
     {"tool"}},
    {Format::kGemma,
     {"raise_exception('System role not supported')", "role='model'",
      "'<start_of_turn>'+role+'\n'+message['content']|trim+'<end_of_turn>\n'"},
     {"tool"}},
    {Format::kLlama2,
     {"bos_token+'[INST] '+content.strip()+' [/INST]'", "' '+content.strip()+' '+eos_token",
      "'<<SYS>>\n'+system_message+'\n<</SYS>>\n\n'+message['content']"},
     {"tool", "true==true", "iftrue"}},
    {Format::kMistralV3,
     {"'[INST] '+system_message+'\n\n'+message['content']+'[/INST]'",
      "'[INST] '+message['content']+'[/INST]'", "' '+message['content']|trim+eos_token",
      "loop.last"},
     {"SYSTEM_PROMPT"}},
    {Format::kMistralNemo,
     {"'[INST]'+system_message+'\n\n'+message['content']+'[/INST]'",
      "'[INST]'+message['content']+'[/INST]'", "message['content']+eos_token", "loop.last"},
     {"SYSTEM_PROMPT", "'+message['content']+eos_token"}},
    {Format::kMistralV1,
     {"'[INST] '+message['content']+' [/INST]'", "message['content']+eos_token}}"},
     {"system", "tool", "<<SYS>>", "trim", "strip", "eos_token+"}},
    {Format::kChatMl,
     {"'<|im_start|>'+message['role']+'\n'+message['content']+'<|im_end|>\n'",
      "'<|im_start|>assistant\n'", "ifadd_generation_prompt"},
     {"tool", "trim", "strip", "system_message", "elif", "message['role']==", "message['role']!="}},
}};

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  std::string out;
  size_t at = 0;
  for (size_t hit; (hit = text.find(from, at)) != std::string::npos; at = hit + from.size())
    out.append(text, at, hit - at).append(to);
  text = out.append(text, at);
}

// Reduces the source to one spelling of what Jinja treats alike: no comments, no white space
// outside literals, single quotes, escaped line breaks as line breaks, adjacent literals joined,
// message['role'] for message.role.
std::string squeezed(std::string_view jinja) {
  std::string out;
  out.reserve(jinja.size());
  bool in_block = false;
  char quote = '\0';
  for (size_t i = 0; i < jinja.size(); ++i) {
    char c = jinja[i];
    char next = i + 1 < jinja.size() ? jinja[i + 1] : '\0';
    if (quote == '\0' && c == '{' && next == '#') {
      i = std::min(jinja.find("#}", i + 2), jinja.size() - 1) + 1;
      continue;
    }
    if (quote == '\0' && c == '{' && (next == '{' || next == '%')) in_block = true;
    if (quote == '\0' && next == '}' && (c == '}' || c == '%')) in_block = false;
    if (quote != '\0' && c == '\\' && next != '\0') {
      ++i;
      out.push_back(next == 'n' ? '\n' : next);
    } else if (quote != '\0' ? c == quote : in_block && (c == '\'' || c == '"')) {
      quote = quote == '\0' ? c : '\0';
      out.push_back('\'');
    } else if (quote != '\0' || (c != ' ' && c != '\n' && c != '\t' && c != '\r')) {
      out.push_back(c);
    }
  }
  replace_all(out, "'+'", "");
  replace_all(out, "message.role", "message['role']");
  replace_all(out, "message.content", "message['content']");
  return out;
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool fits(std::string_view source, const Fingerprint& fingerprint) {
  return std::all_of(fingerprint.holds.begin(), fingerprint.holds.end(),
                     [&](std::string_view part) { return contains(source, part); }) &&
         std::none_of(
             fingerprint.lacks.begin(), fingerprint.lacks.end(),
             [&](std::string_view part) { return !part.empty() && contains(source, part); });
}

// The text between '<|im_start|>system\n and <|im_end|>, with its escapes decoded. nullopt if the
// template has no such literal; an empty string if it fills the literal from a message.
std::optional<std::string> chatml_default_system(std::string_view jinja) {
  constexpr std::string_view kBegin = "<|im_start|>system";
  constexpr std::string_view kEnd = "<|im_end|>";
  size_t begin = jinja.find(kBegin);
  if (begin == std::string_view::npos) return std::nullopt;
  begin += kBegin.size();
  size_t end = jinja.find(kEnd, begin);
  if (end == std::string_view::npos) return std::string();
  std::string out;
  for (size_t i = begin; i < end; ++i) {
    if (jinja[i] == '\'' || jinja[i] == '"' || jinja[i] == '{') return std::string();
    if (jinja[i] != '\\') {
      out.push_back(jinja[i]);
      continue;
    }
    if (++i == end) return std::string();
    out.push_back(jinja[i] == 'n' ? '\n' : jinja[i]);
  }
  if (out.empty() || out[0] != '\n') return std::string();
  return out.substr(1);
}

// Qwen 2.5's default: the literal in the branch without tools and without a system message; empty
// if there is none.
std::string qwen25_default_system(std::string_view source) {
  constexpr std::string_view kBegin = "{%-else%}{{-'<|im_start|>system\n";
  const size_t found = source.find(kBegin);
  if (found == std::string_view::npos) return "";
  const size_t begin = found + kBegin.size();
  return std::string(source.substr(begin, source.find("<|im_end|>\n'}}", begin) - begin));
}

// Qwen 3's template writes this before an answer, which may begin a thought: the literal at its
// end. nullopt if the end is not a known one. The variable that switches thoughts off is never set.
std::optional<std::string> qwen3_answer_begin(std::string_view source) {
  constexpr std::string_view kBegin = "{%-endfor%}{%-ifadd_generation_prompt%}{{-'";
  constexpr std::string_view kSwitch =
      "{%-ifenable_thinkingisdefinedandenable_thinkingisfalse%}{{-'<think>\n\n</think>\n\n'}}{%-"
      "endif%}";
  const size_t begin = source.rfind(kBegin);
  if (begin == std::string_view::npos) return std::nullopt;
  source.remove_prefix(begin + kBegin.size());
  const size_t end = source.find("'}}");
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view literal = source.substr(0, end);
  source.remove_prefix(end + 3);
  if (source.starts_with(kSwitch)) source.remove_prefix(kSwitch.size());
  if (source != "{%-endif%}" || !literal.starts_with(kQwen3AnswerBegin)) return std::nullopt;
  const std::string_view thought = literal.substr(kQwen3AnswerBegin.size());
  if (std::find(kQwen3Thoughts.begin(), kQwen3Thoughts.end(), thought) == kQwen3Thoughts.end())
    return std::nullopt;
  return std::string(literal);
}

std::string known_names() {
  std::string out;
  for (const Known& known : kKnown) out += (out.empty() ? "" : ", ") + std::string(known.name);
  return out;
}

}  // namespace

ChatTemplate ChatTemplate::recognise(std::string_view jinja) {
  if (jinja.size() > kMaxTemplateBytes)
    throw usage_error("[chat] expected a template of at most {} bytes, got {}", kMaxTemplateBytes,
                      jinja.size());
  std::string source = squeezed(jinja);
  for (const Fingerprint& fingerprint : kFingerprints) {
    if (!fits(source, fingerprint)) continue;
    ChatTemplate found;
    found.format_ = fingerprint.format;
    found.writes_bos_ = contains(source, "bos_token");
    found.uses_date_ = contains(source, "strftime_now");
    if (found.format_ == Format::kChatMl) {
      std::optional<std::string> system = chatml_default_system(jinja);
      // The literal is a default only if the template tests that the first message is no system
      // message.
      bool tested = contains(source, "messages[0]['role']!='system'");
      if (system.has_value() != tested || (system && system->empty())) continue;
      found.default_system_ = system.value_or("");
    } else if (found.format_ == Format::kQwen25) {
      found.default_system_ = qwen25_default_system(source);
    } else if (found.format_ == Format::kQwen3) {
      const std::optional<std::string> begin = qwen3_answer_begin(source);
      if (!begin) continue;
      found.answer_begin_ = *begin;
    }
    return found;
  }
  throw usage_error(
      "[chat] unknown chat template in the model file; choose one by name ({}). It begins with {}",
      known_names(), printable(jinja, 60));
}

ChatTemplate ChatTemplate::named(std::string_view name) {
  for (const Known& known : kKnown) {
    if (known.name != name) continue;
    ChatTemplate found;
    found.format_ = known.format;
    found.writes_bos_ = known.writes_bos;
    if (name == "smollm2") found.default_system_ = kSmolLm2System;
    if (name == "qwen2.5") found.default_system_ = kQwen25System;
    if (name == "qwen3") found.answer_begin_ = kQwen3AnswerBegin;
    return found;
  }
  throw usage_error("[chat] unknown chat template {}; expected one of {}", printable(name),
                    known_names());
}

std::vector<std::string_view> ChatTemplate::names() {
  std::vector<std::string_view> out;
  for (const Known& known : kKnown) out.push_back(known.name);
  return out;
}

}  // namespace ridge::text
