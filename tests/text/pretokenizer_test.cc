// SPDX-License-Identifier: Apache-2.0
// The scanners against the published patterns, matched by PCRE2.
#include "text/pretokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "text/text_fixtures.h"

namespace ridge::text {
namespace {

using Pieces = std::vector<std::string>;

Pieces scan(PreTokenizer kind, std::string_view text) {
  Pieces pieces;
  for (size_t at = 0; at < text.size();) {
    size_t end = piece_end(kind, text, at);
    if (end <= at || end > text.size()) return {"no progress"};
    pieces.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return pieces;
}

// All matches of a pattern from left to right and, if `keep_rest` is set, the text between them.
Pieces matches(std::string_view pattern, std::string_view text, bool keep_rest) {
  int error = 0;
  PCRE2_SIZE where = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                   PCRE2_UTF | PCRE2_UCP, &error, &where, nullptr);
  pcre2_match_data* data = pcre2_match_data_create_from_pattern(code, nullptr);
  Pieces pieces;
  size_t at = 0;
  while (at < text.size()) {
    int count = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                            PCRE2_NO_UTF_CHECK, data, nullptr);
    if (count <= 0) break;
    const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(data);
    if (keep_rest && bounds[0] > at) pieces.emplace_back(text.substr(at, bounds[0] - at));
    pieces.emplace_back(text.substr(bounds[0], bounds[1] - bounds[0]));
    at = bounds[1];
  }
  if (keep_rest && at < text.size()) pieces.emplace_back(text.substr(at));
  pcre2_match_data_free(data);
  pcre2_code_free(code);
  return pieces;
}

Pieces by_pattern(PreTokenizer kind, std::string_view text) {
  if (kind == PreTokenizer::kLlama3) return matches(kLlama3Pattern, text, false);
  if (kind == PreTokenizer::kQwen2) return matches(kQwen2Pattern, text, false);
  if (kind == PreTokenizer::kGpt2) return matches(kGpt2Pattern, text, false);
  Pieces pieces;
  for (const std::string& part : matches("\\p{N}", text, true))
    for (std::string& piece : matches(kGpt2Pattern, part, false))
      pieces.push_back(std::move(piece));
  return pieces;
}

class Scanners : public testing::TestWithParam<PreTokenizer> {};

TEST_P(Scanners, EqualThePatternOnRandomText) {
  std::mt19937 random(11);
  for (int i = 0; i < 3000; ++i) {
    std::string text = random_text(random, 1 + random() % 60);
    ASSERT_EQ(scan(GetParam(), text), by_pattern(GetParam(), text)) << text;
  }
}

// Every text of up to `most` characters of the alphabet.
void expect_pattern(PreTokenizer kind, const std::vector<std::string>& alphabet, size_t most) {
  for (size_t length = 1; length <= most; ++length) {
    std::vector<size_t> digits(length);
    while (true) {
      std::string text;
      for (size_t d : digits) text += alphabet[d];
      ASSERT_EQ(scan(kind, text), by_pattern(kind, text)) << "\"" << text << "\"";
      size_t i = 0;
      while (i < length && ++digits[i] == alphabet.size()) digits[i++] = 0;
      if (i == length) break;
    }
  }
}

TEST_P(Scanners, EqualThePatternOnShortTextsOfTrickyCharacters) {
  expect_pattern(GetParam(), {" ", "\n", "a", "s", "'", "1", "!", "\u3000"}, 6);
  // U+017F is an s of old prints, U+212A the sign of Kelvin.
  expect_pattern(GetParam(), {" ", "\u017F", "S", "l", "V", "e", "'", "\u212A"}, 5);
}

TEST_P(Scanners, EqualThePatternOnACorpus) {
  std::string corpus = read_data("corpus.en");
  EXPECT_EQ(scan(GetParam(), corpus), by_pattern(GetParam(), corpus));
}

TEST_P(Scanners, AnyBytesAreCutCompletely) {
  std::mt19937 random(5);
  for (int i = 0; i < 300; ++i) {
    std::string bytes(random() % 200, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    std::string joined;
    for (const std::string& piece : scan(GetParam(), bytes)) joined += piece;
    EXPECT_EQ(joined, bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(PreTokenizer,
                         Scanners,
                         testing::Values(PreTokenizer::kGpt2,
                                         PreTokenizer::kLlama3,
                                         PreTokenizer::kSmolLm,
                                         PreTokenizer::kQwen2),
                         [](const auto& test) { return std::string(name(test.param)); });

TEST(PreTokenizer, KnownCuts) {
  EXPECT_EQ(scan(PreTokenizer::kGpt2, "I'm  2 cool'S"),
            (Pieces{"I", "'m", " ", " 2", " cool", "'", "S"}));
  EXPECT_EQ(scan(PreTokenizer::kLlama3, "I'M 12345\n\n x!\n"),
            (Pieces{"I", "'M", " ", "123", "45", "\n\n", " x", "!\n"}));
  EXPECT_EQ(scan(PreTokenizer::kSmolLm, "a  52 b"), (Pieces{"a", "  ", "5", "2", " b"}));
  EXPECT_EQ(scan(PreTokenizer::kQwen2, "I'M 12 x!\n"),
            (Pieces{"I", "'M", " ", "1", "2", " x", "!\n"}));
  EXPECT_EQ(scan(PreTokenizer::kNone, "a b"), (Pieces{"a b"}));
}

TEST(PreTokenizer, NamesRoundTrip) {
  for (PreTokenizer kind : {PreTokenizer::kNone, PreTokenizer::kGpt2, PreTokenizer::kLlama3,
                            PreTokenizer::kSmolLm, PreTokenizer::kQwen2})
    EXPECT_EQ(parse_pre_tokenizer(name(kind)), kind);
  EXPECT_EQ(parse_pre_tokenizer("gpt3"), std::nullopt);
  EXPECT_EQ(pre_tokenizer_names(), "none, gpt2, llama3, smollm or qwen2");
}

}  // namespace
}  // namespace ridge::text
