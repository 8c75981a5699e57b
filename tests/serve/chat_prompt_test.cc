// SPDX-License-Identifier: Apache-2.0
// The chat format of a model: by name or by the file's template, dated where the template has a
// date.
#include "serve/chat_prompt.h"

#include <fmt/chrono.h>
#include <gtest/gtest.h>

#include <ctime>

#include "files/json.h"
#include "files/scratch.h"
#include "serve/bytes_tokenizer.h"

namespace ridge::serve {
namespace {

std::string jinja(const char* name) {
  return files::read_json(test_data("text/chat_templates.json"))["templates"][name]
      .get<std::string>();
}

std::string today() { return fmt::format("{:%d %b %Y}", fmt::localtime(std::time(nullptr))); }

TEST(ChatFormatChoice, IsTheNamedTemplateOrTheFilesOwn) {
  using enum text::ChatTemplate::Format;
  ChatFormatOptions options;
  EXPECT_EQ(chat_format(options, jinja("qwen2.5")).chat.format(), kQwen25);
  options.name = "gemma";
  EXPECT_EQ(chat_format(options, jinja("qwen2.5")).chat.format(), kGemma);
  EXPECT_EQ(chat_format(options, "").chat.format(), kGemma);
  EXPECT_EQ(chat_format(options, "").date, "");
  EXPECT_FALSE(chat_format(options, "").parses_messages);
  options.parses_messages = true;
  EXPECT_TRUE(chat_format(options, "").parses_messages);
}

TEST(ChatFormatChoice, HasTodaysDateIfTheTemplateHasOne) {
  ChatFormatOptions options;
  std::string dated = jinja("llama3.1"), before, date;
  EXPECT_EQ(chat_format(options, dated).date, "") << "it writes one of its own";
  const std::string own = "\"26 Jul 2024\"";
  dated.replace(dated.find(own), own.size(), "strftime_now(\"%d %b %Y\")");
  do {  // again if midnight comes between
    before = today();
    date = chat_format(options, dated).date;
  } while (before != today());
  EXPECT_EQ(date, before);
}

TEST(ChatFormatChoice, NeedsATemplate) {
  files::expect_error([] { chat_format({}, ""); }, ExitCode::kUsage,
                      "[chat] the model file has no chat template; choose one with "
                      "--chat-template: chatml, smollm2, llama2, llama3, llama3.1, gemma, gemma3, "
                      "mistral, mistral-v3, mistral-nemo, qwen2.5, qwen3");
}

// The template writes its own begin, or the tokenizer adds one.
TEST(EncodedChat, BeginsOnce) {
  const text::Tokenizer plain = bytes_tokenizer(258);
  text::TokenizerSpec spec = plain.spec();
  spec.bos = 0;
  const auto begins = [&](const char* name, bool add_bos) {
    spec.add_bos = add_bos;
    const text::Tokenizer tokenizer(spec);
    const std::vector<int32_t> ids = encode_chat(std::vector<text::ChatMessage>{{"user", "Hi"}},
                                                 {text::ChatTemplate::named(name), ""}, tokenizer);
    return std::pair(ids[0] == 0, ids[1] == 0);
  };
  EXPECT_EQ(begins("chatml", false), (std::pair{true, false})) << "of the first turn";
  EXPECT_EQ(begins("chatml", true), (std::pair{true, true}));
  EXPECT_EQ(begins("llama3", false), (std::pair{true, false}));
  EXPECT_EQ(begins("llama3", true), (std::pair{true, false}));
}

}  // namespace
}  // namespace ridge::serve
