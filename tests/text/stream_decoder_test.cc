// SPDX-License-Identifier: Apache-2.0
// Decoding a stream against decoding all tokens at once.
#include "text/stream_decoder.h"

#include <gtest/gtest.h>

#include "text/text_fixtures.h"

namespace ridge::text {
namespace {

TEST(StreamDecoder, NeverSplitsACharacterAndLosesNothing) {
  const nlohmann::json data = read_json("sentencepiece_llama_cpp.json");
  std::vector<Tokenizer> tokenizers;
  tokenizers.emplace_back(gpt2_spec());
  tokenizers.emplace_back(sentencepiece_spec(data, false));
  tokenizers.emplace_back(sentencepiece_spec(data, true));
  std::mt19937 random(6);
  for (const Tokenizer& tokenizer : tokenizers) {
    StreamDecoder stream(tokenizer);
    for (int i = 0; i < 300; ++i) {
      std::string text =
          i % 3 == 0 ? std::string(data["texts"][static_cast<size_t>(i) % data["texts"].size()])
                     : random_text(random, 40);
      if (i % 5 == 0) text += static_cast<char>(0x80 + random() % 128);
      std::vector<int32_t> ids = tokenizer.encode(text, {.parse_special = true});
      std::string streamed;
      for (int32_t id : ids) {
        std::string part = stream.push(id);
        ASSERT_TRUE(is_valid_utf8(part));
        streamed += part;
      }
      streamed += stream.finish();
      EXPECT_EQ(streamed, to_valid_utf8(tokenizer.decode(ids)));
    }
  }
}

TEST(StreamDecoder, HoldsBackUntilTheCharacterIsWhole) {
  TokenizerSpec spec = gpt2_spec();
  spec.merges.clear();  // one token per byte
  Tokenizer tokenizer(spec);
  std::vector<int32_t> ids = tokenizer.encode("🙂");
  ASSERT_EQ(ids.size(), 4u);
  StreamDecoder stream(tokenizer);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(stream.push(ids[i]), "");
  EXPECT_EQ(stream.push(ids[3]), "🙂");
  EXPECT_EQ(stream.push(ids[0]), "");
  EXPECT_EQ(stream.push(tokenizer.encode("a")[0]),
            "\uFFFD"
            "a");
  EXPECT_EQ(stream.push(ids[0]), "");
  EXPECT_EQ(stream.finish(), "\uFFFD");
  EXPECT_EQ(stream.finish(), "");
}

}  // namespace
}  // namespace ridge::text
