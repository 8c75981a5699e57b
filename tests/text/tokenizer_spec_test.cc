// SPDX-License-Identifier: Apache-2.0
// Each kind of error in a specification is reported with the field's name, and random damage never
// crashes.
#include "text/tokenizer_spec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

#include "text/text_fixtures.h"
#include "text/tokenizer.h"

namespace ridge::text {
namespace {

TokenizerSpec small_byte_level() {
  TokenizerSpec spec;
  spec.tokens = {"a", "b", "ab", "<end>"};
  spec.types = {TokenType::kNormal, TokenType::kNormal, TokenType::kNormal, TokenType::kControl};
  spec.merges = {"a b"};
  spec.eos = 3;
  return spec;
}

TokenizerSpec small_sentencepiece() {
  TokenizerSpec spec;
  spec.kind = TokenizerKind::kSentencePieceBpe;
  spec.tokens = {"<unk>", "a", "<0x41>"};
  spec.types = {TokenType::kUnknown, TokenType::kNormal, TokenType::kByte};
  spec.scores = {0, -1, 0};
  spec.unknown = 0;
  return spec;
}

void expect_refused(const TokenizerSpec& spec, const std::string& field) {
  std::string validated = error_of([&] { validate(spec); });
  EXPECT_NE(validated.find(field), std::string::npos)
      << "wanted " << field << ", got " << validated;
  EXPECT_EQ(error_of([&] { Tokenizer tokenizer(spec); }), validated);
}

TEST(TokenizerSpec, GoodOnesPass) {
  EXPECT_EQ(error_of([] { validate(small_byte_level()); }), "");
  EXPECT_EQ(error_of([] { validate(small_sentencepiece()); }), "");
  TokenizerSpec holes = small_byte_level();
  holes.tokens.insert(holes.tokens.end(), {"", ""});
  holes.types.clear();
  EXPECT_EQ(error_of([&] { validate(holes); }), "");
}

TEST(TokenizerSpec, SizesAreChecked) {
  TokenizerSpec spec;
  expect_refused(spec, "tokens: expected 1");
  spec = small_byte_level();
  spec.types.pop_back();
  expect_refused(spec, "token types: expected 4");
  spec = small_byte_level();
  spec.tokens[1] = std::string(kMaxTokenBytes + 1, 'x');
  expect_refused(spec, "token 1: expected at most");
  spec = small_byte_level();
  spec.tokens[3] = std::string(kMaxSpecialTokenBytes + 1, 'x');
  expect_refused(spec, "token 3: expected at most 512");
  spec = small_sentencepiece();
  spec.scores.pop_back();
  expect_refused(spec, "scores: expected 3");
}

TEST(TokenizerSpec, TokensAreChecked) {
  TokenizerSpec spec = small_byte_level();
  spec.tokens[1] = "a";
  expect_refused(spec, "token 1: \"a\" is already token 0");
  spec = small_byte_level();
  spec.types[1] = static_cast<TokenType>(77);
  expect_refused(spec, "token 1: unknown type 77");
  spec = small_sentencepiece();
  for (const char* wrong : {"<0x4>", "<0x4G>", "<0x41", "A", "<0X41>"}) {
    spec.tokens[2] = wrong;
    expect_refused(spec, "token 2: a byte token");
  }
  spec = small_sentencepiece();
  spec.unknown = kNoToken;
  expect_refused(spec, "tokens of all 256 bytes");
}

TEST(TokenizerSpec, ScoresMustBeFinite) {
  for (float wrong : {std::nanf(""), std::numeric_limits<float>::infinity(),
                      -std::numeric_limits<float>::infinity()}) {
    TokenizerSpec spec = small_sentencepiece();
    spec.scores[1] = wrong;
    expect_refused(spec, "score of token 1");
  }
}

TEST(TokenizerSpec, IdsAreChecked) {
  for (int32_t wrong :
       {-2, 4, std::numeric_limits<int32_t>::max(), std::numeric_limits<int32_t>::min()}) {
    for (const auto& [id, what] : {std::pair(&TokenizerSpec::bos, "bos token"),
                                   {&TokenizerSpec::eos, "eos token"},
                                   {&TokenizerSpec::unknown, "unknown token"},
                                   {&TokenizerSpec::padding, "padding token"}}) {
      TokenizerSpec spec = small_byte_level();
      spec.*id = wrong;
      expect_refused(spec, what);
    }
    TokenizerSpec spec = small_byte_level();
    spec.end_of_generation = {3, wrong};
    expect_refused(spec, "end-of-generation token");
  }
}

TEST(TokenizerSpec, MergesAreChecked) {
  TokenizerSpec spec = small_byte_level();
  // An empty half would join a token with nothing, again and again.
  for (const char* wrong : {"", " ", "a", "a ", " b", "a  b", "a b ", "a b c"}) {
    spec.merges = {"a b", wrong};
    expect_refused(spec, "merge 1: expected two tokens");
  }
  for (const char* wrong : {"a x", "x b", "b a", "ab ab"}) {
    spec.merges = {"a b", wrong};
    expect_refused(spec, "is not in the vocabulary");
  }
  spec.merges = {"a b", "a b"};
  expect_refused(spec, "appears twice");
}

TEST(TokenizerSpec, RandomDamageIsRefusedOrHarmless) {
  std::mt19937 random(8);
  const nlohmann::json data = read_json("sentencepiece_llama_cpp.json");
  int refused = 0;
  for (int i = 0; i < 400; ++i) {
    TokenizerSpec spec = i % 2 == 0 ? small_byte_level() : sentencepiece_spec(data, i % 4 == 1);
    for (size_t damage = 1 + random() % 3; damage > 0; --damage) {
      std::string& token = spec.tokens[random() % spec.tokens.size()];
      switch (random() % 6) {
        case 0:
          token = static_cast<char>(random());
          break;
        case 1:
          token = spec.tokens[random() % spec.tokens.size()];
          break;
        case 2:
          spec.types[random() % spec.types.size()] = static_cast<TokenType>(random() % 8);
          break;
        case 3:
          if (!spec.scores.empty()) spec.scores[random() % spec.scores.size()] = 1e38f;
          break;
        case 4:
          token.clear();
          break;
        default:
          spec.merges.push_back(token + " " + token);
      }
    }
    std::string error = error_of([&] {
      Tokenizer tokenizer(spec);
      std::string text = random_text(random, 50);
      tokenizer.decode(tokenizer.encode(text, {.parse_special = true}), {.special = true});
    });
    refused += !error.empty();
    EXPECT_EQ(error.find("other exit code"), std::string::npos) << error;
  }
  EXPECT_GT(refused, 50);
  EXPECT_LT(refused, 390);
}

}  // namespace
}  // namespace ridge::text
