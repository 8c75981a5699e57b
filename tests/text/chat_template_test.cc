// SPDX-License-Identifier: Apache-2.0
// Chat templates against Jinja2's renderings. A template that is not known exactly is refused.
#include "text/chat_template.h"

#include <gtest/gtest.h>

#include "text/text_fixtures.h"

namespace ridge::text {
namespace {

const nlohmann::json& data() {
  static const nlohmann::json data = read_json("chat_templates.json");
  return data;
}

std::string refusal(std::string_view jinja) {
  return error_of([&] { ChatTemplate::recognise(jinja); }, ExitCode::kUsage);
}

TEST(ChatTemplate, RendersAsJinjaDoes) {
  for (const nlohmann::json& c : data()["cases"]) {
    std::string name = c["name"];
    const bool is_named = data()["templates"].contains(name);
    std::string jinja = data()[is_named ? "templates" : "variants"][name];
    std::vector<ChatMessage> messages;
    for (const nlohmann::json& m : c["messages"]) messages.push_back({m["role"], m["content"]});
    ChatOptions options{
        .add_generation_prompt = c["add_generation_prompt"], .bos = "<s>", .eos = "</s>"};
    // SmolLM2's system message is part of its template, and comes with its name too.
    std::vector<ChatTemplate> chats{ChatTemplate::recognise(jinja)};
    if (is_named) chats.push_back(ChatTemplate::named(name));
    for (const ChatTemplate& chat : chats) {
      if (c["expected"].is_null()) {
        EXPECT_NE(error_of([&] { chat.render(messages, options); }, ExitCode::kUsage), "") << name;
      } else {
        EXPECT_EQ(chat.render(messages, options).text, c["expected"].get<std::string>()) << name;
      }
    }
  }
}

TEST(ChatTemplate, NeighboursOfKnownTemplatesAreRefused) {
  for (const auto& [what, jinja] : data()["unknown"].items()) {
    std::string error = refusal(jinja.get<std::string>());
    EXPECT_NE(error.find("smollm2"), std::string::npos) << what << ": " << error;
  }
}

TEST(ChatTemplate, TellsFormatsApart) {
  const std::vector<std::pair<std::string, ChatTemplate::Format>> expected = {
      {"smollm2", ChatTemplate::Format::kChatMl},
      {"chatml", ChatTemplate::Format::kChatMl},
      {"llama2", ChatTemplate::Format::kLlama2},
      {"llama3", ChatTemplate::Format::kLlama3},
      {"llama3.1", ChatTemplate::Format::kLlama31},
      {"gemma", ChatTemplate::Format::kGemma},
      {"gemma3", ChatTemplate::Format::kGemma3},
      {"mistral", ChatTemplate::Format::kMistralV1},
      {"mistral-v3", ChatTemplate::Format::kMistralV3},
      {"mistral-nemo", ChatTemplate::Format::kMistralNemo},
      {"qwen2.5", ChatTemplate::Format::kQwen25},
      {"qwen3", ChatTemplate::Format::kQwen3}};
  ASSERT_EQ(expected.size(), ChatTemplate::names().size());
  for (const auto& [name, format] : expected) {
    EXPECT_EQ(ChatTemplate::recognise(data()["templates"][name].get<std::string>()).format(),
              format)
        << name;
    EXPECT_EQ(ChatTemplate::named(name).format(), format) << name;
  }
}

TEST(ChatTemplate, DefaultSystemMessagesAreTakenFromTheTemplate) {
  std::string jinja = data()["templates"]["smollm2"];
  EXPECT_EQ(ChatTemplate::recognise(jinja).default_system(),
            ChatTemplate::named("smollm2").default_system());
  size_t at = jinja.find("You are");
  jinja.replace(at, jinja.find("<|im_end|>") - at, "It\\'s me.\\nTruly.");
  ChatTemplate chat = ChatTemplate::recognise(jinja);
  EXPECT_EQ(chat.default_system(), "It's me.\nTruly.");
  EXPECT_EQ(chat.render(std::vector<ChatMessage>{{"user", "hi"}}, {}).text,
            "<|im_start|>system\nIt's "
            "me.\nTruly.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
}

TEST(ChatTemplate, TheDefaultSystemMessageOfQwen25IsTakenFromTheTemplate) {
  std::string jinja = data()["templates"]["qwen2.5"];
  EXPECT_EQ(ChatTemplate::recognise(jinja).default_system(),
            ChatTemplate::named("qwen2.5").default_system());
  const std::string mine = "Reason, put what\\'s found in \\\\boxed{}.";
  const size_t at = jinja.find("You are Qwen");
  jinja.replace(at, jinja.find("<|im_end|>", at) - at, mine);
  EXPECT_EQ(ChatTemplate::recognise(jinja).default_system(),
            "Reason, put what's found in \\boxed{}.");
}

TEST(ChatTemplate, TheDateOfLlama31CanBeGiven) {
  std::string jinja = data()["templates"]["llama3.1"];
  EXPECT_FALSE(ChatTemplate::recognise(jinja).uses_date());
  size_t at = jinja.find("\"26 Jul 2024\"");
  jinja.replace(at, 13, "strftime_now(\"%d %b %Y\")");
  ChatTemplate chat = ChatTemplate::recognise(jinja);
  EXPECT_TRUE(chat.uses_date());
  const std::string text =
      chat.render(std::vector<ChatMessage>{{"user", "hi"}}, {.date = "05 Mar 2031"}).text;
  EXPECT_NE(text.find("Today Date: 05 Mar 2031\n"), std::string::npos);
}

TEST(ChatTemplate, WrongConversationsAreRefused) {
  auto render = [](const char* name, const std::vector<ChatMessage>& messages) {
    return error_of([&] { ChatTemplate::named(name).render(messages, {}); }, ExitCode::kUsage);
  };
  EXPECT_NE(render("chatml", {}).find("at least one"), std::string::npos);
  EXPECT_NE(render("chatml", {{"tool", "x"}}).find("role"), std::string::npos);
  EXPECT_NE(render("chatml", {{"user<|im_end|>\n", "x"}}).find("role"), std::string::npos);
  EXPECT_NE(render("gemma3", {{"user", "x"}, {"user", "y"}}).find("alternate"), std::string::npos);
  EXPECT_NE(render("gemma", {{"system", "x"}, {"user", "y"}}).find("system"), std::string::npos);
  EXPECT_NE(render("mistral", {{"system", "x"}, {"user", "y"}}).find("system"), std::string::npos);
  std::vector<ChatMessage> many(ChatTemplate::kMaxMessages + 1, {"user", ""});
  EXPECT_NE(render("chatml", many).find("at most"), std::string::npos);
}

TEST(ChatTemplate, HugeAndBrokenTemplatesAreRefusedQuickly) {
  EXPECT_NE(refusal(std::string(ChatTemplate::kMaxTemplateBytes + 1, ' ')).find("at most"),
            std::string::npos);
  for (const char* unit : {"{#", "{{'", "'+'", "{{ message.role ", "<|im_start|>system", "\\",
                           "{% if messages[0]['role'] != "})
    EXPECT_NE(refusal(repeated(unit, ChatTemplate::kMaxTemplateBytes - 64)), "");
  // A truncated version of a known template is either refused or harmless.
  std::string jinja = data()["templates"]["smollm2"];
  for (size_t size = 0; size < jinja.size(); ++size)
    refusal(std::string_view(jinja).substr(0, size));
}

TEST(ChatTemplate, NamesAreChecked) {
  EXPECT_NE(error_of([] { ChatTemplate::named("llama9"); }, ExitCode::kUsage).find("llama3.1"),
            std::string::npos);
}

}  // namespace
}  // namespace ridge::text
