// SPDX-License-Identifier: Apache-2.0
// Chats with small models: the model reads the messages of all turns, and the KV cache changes
// nothing but the work.
#include "serve/conversation.h"

#include <algorithm>

#include "models/tokenizer_file.h"
#include "serve/bytes_tokenizer.h"
#include "serve/real_model.h"

namespace ridge::serve {
namespace {

constexpr int64_t kCapacity = 192;

std::string user(const std::string& text) {
  return "<|im_start|>user\n" + text + "<|im_end|>\n<|im_start|>assistant\n";
}

class ConversationTest : public testing::TestWithParam<const char*> {
 protected:
  ConversationTest()
      : file_(models::ModelFile::open(data_folder() + GetParam())),
        tokenizer_(bytes_tokenizer(file_.config().vocabulary)) {
    options_.max_tokens = 9;
  }

  Session session(int64_t chunk) {
    SessionOptions options = at_level("compiled", kCapacity);
    options.chunk = chunk;
    options.prefix_caching = true;
    return Session(file_, options, cpu_backend());
  }
  Conversation chat(Session& session, const char* system = "") {
    return {session, tokenizer_, {text::ChatTemplate::named("chatml"), ""}, system};
  }
  std::vector<int32_t> encode(const std::string& text) const {
    return tokenizer_.encode(text, {.parse_special = true});
  }

  models::ModelFile file_;
  text::Tokenizer tokenizer_;
  GenerateOptions options_;
};

TEST_P(ConversationTest, TheModelReadsAllTurns) {
  for (int64_t chunk : {4, 64}) {
    Session made = session(chunk);
    Conversation talk = chat(made, "Be brief.");
    std::string text = "<|im_start|>system\nBe brief.<|im_end|>\n", shown;
    std::vector<int32_t> in_cache;
    int64_t first_prompt = 0;
    for (const char* message : {"One?", "And two?"}) {
      text += user(message);
      shown.clear();
      const Turn turn = talk.answer(message, options_, [&](std::string_view s) { shown += s; });
      ASSERT_EQ(turn.prompt, encode(text)) << "chunks of " << chunk;
      EXPECT_EQ(shown, turn.answer.text);
      const bool is_cut = std::ssize(turn.answer.ids) == options_.max_tokens;
      EXPECT_EQ(turn.answer.finish_reason, is_cut ? "length" : "stop");
      // The whole blocks that the turns share are not computed again.
      const int64_t same = std::ranges::mismatch(turn.prompt, in_cache).in1 - turn.prompt.begin();
      EXPECT_EQ(turn.answer.cached_tokens, same / models::kBlockTokens * models::kBlockTokens);
      EXPECT_GE(turn.answer.cached_tokens + models::kBlockTokens, first_prompt);
      // A session without a past gives the same answer.
      Session fresh = session(chunk);
      EXPECT_EQ(turn.answer.ids, greedy(fresh, turn.prompt, turn.answer.ids.size()));
      EXPECT_LE(largest_difference(made.logits(0), fresh.logits(0)), 1e-4);
      text += turn.answer.text + "<|im_end|>\n";
      first_prompt = std::ssize(turn.prompt);
      in_cache = turn.prompt;
      in_cache.insert(in_cache.end(), turn.answer.ids.begin(), turn.answer.ids.end() - 1);
    }
  }
}

TEST(EncodeChat, WritesTheDateWhereTheFormatHasOne) {
  const text::Tokenizer tokenizer = bytes_tokenizer(258);
  const auto encoded = [&](const char* date) {
    return tokenizer.decode(encode_chat(std::vector<text::ChatMessage>{{"user", "Hi"}},
                                        {text::ChatTemplate::named("llama3.1"), date}, tokenizer));
  };
  EXPECT_NE(encoded("24 Nov 2026").find("Today Date: 24 Nov 2026"), std::string::npos);
  EXPECT_NE(encoded("").find("Today Date: " + text::ChatOptions().date), std::string::npos);
}

TEST(EncodeChat, AMessageForgesNoTurn) {
  const std::pair<const char*, const char*> models[] = {{"smollm", "chatml"},
                                                        {"qwen2", "qwen2.5"},
                                                        {"llama2", "llama2"},
                                                        {"llama3", "llama3.1"},
                                                        {"gemma", "gemma3"}};
  for (const auto& [folder, name] : models) {
    const text::Tokenizer tokenizer =
        models::load_tokenizer(test_data("models/tokenizers") / folder);
    ChatFormat format{text::ChatTemplate::named(name), ""};
    const auto controls = [&](const std::string& message) {
      const std::vector<text::ChatMessage> messages{
          {"user", "Hello"}, {"assistant", message}, {"user", message}};
      return std::ranges::count_if(encode_chat(messages, format, tokenizer),
                                   [&](int32_t id) { return tokenizer.is_special(id); });
    };
    const auto expected = controls("Hello");
    int64_t tokens = 0;
    std::string all;
    for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
      if (!tokenizer.is_special(id) || tokenizer.token_bytes(id).empty()) continue;
      ++tokens;
      all += "Hello" + std::string(tokenizer.token_bytes(id));
    }
    ASSERT_GT(tokens, 0) << name;
    EXPECT_EQ(controls(all), expected) << name;
    format.parses_messages = true;  // as transformers and llama-server do
    EXPECT_GE(controls(all), expected + 2 * tokens) << name;
  }
}

TEST_P(ConversationTest, ClearForgetsTheTurns) {
  Session made = session(64);
  Conversation talk = chat(made);
  const Turn first = talk.answer("One?", options_, {});
  talk.answer("Two?", options_, {});
  talk.clear();
  const Turn again = talk.answer("One?", options_, {});
  EXPECT_EQ(again.prompt, first.prompt);
  EXPECT_EQ(again.answer.ids, first.answer.ids);
}

TEST_P(ConversationTest, AFullContextLeavesTheConversation) {
  Session made = session(64);
  Conversation talk = chat(made);
  const std::vector<int32_t> first = talk.answer("One?", options_, {}).prompt;
  const Turn refused = talk.answer(std::string(kCapacity, 'x'), options_, {});
  EXPECT_EQ(refused.answer.finish_reason, "context");
  EXPECT_GT(std::ssize(refused.prompt), kCapacity);
  EXPECT_TRUE(refused.answer.ids.empty());
  const Turn next = talk.answer("Two?", options_, {});
  EXPECT_EQ(std::ranges::search(next.prompt, encode(std::string(8, 'x'))).size(), 0u);
  EXPECT_EQ(std::ranges::search(next.prompt, first).begin(), next.prompt.begin());
}

TEST_P(ConversationTest, AnInterruptedAnswerStaysInTheConversation) {
  Session made = session(64);
  Conversation talk = chat(made);
  int64_t asked = 0;
  GenerateOptions options = options_;
  options.is_interrupted = [&] { return ++asked == 3; };
  const Turn turn = talk.answer("One?", options, {});
  EXPECT_EQ(turn.answer.finish_reason, "interrupted");
  EXPECT_EQ(turn.answer.ids.size(), 3u);
  const Turn next = talk.answer("Two?", options_, {});
  EXPECT_EQ(next.prompt, encode(user("One?") + turn.answer.text + "<|im_end|>\n" + user("Two?")));
}

INSTANTIATE_TEST_SUITE_P(All,
                         ConversationTest,
                         testing::Values("llama_fp32", "gemma3_bf16", "qwen2_fp32", "qwen3_bf16"));

}  // namespace
}  // namespace ridge::serve
