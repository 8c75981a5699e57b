// SPDX-License-Identifier: Apache-2.0
// UTF-8 against the standard's own examples, and classes against PCRE2's patterns, character by
// character.
#include "text/utf8.h"

#include <gtest/gtest.h>

#include <random>

namespace ridge::text {
namespace {

TEST(Utf8, DecodesEveryLengthAndRefusesTheRest) {
  EXPECT_EQ(decode_utf8("a", 0).value, U'a');
  EXPECT_EQ(decode_utf8("xé", 1).value, U'é');
  EXPECT_EQ(decode_utf8("世", 0).value, U'世');
  EXPECT_EQ(decode_utf8("🙂", 0).value, U'🙂');
  EXPECT_EQ(decode_utf8("🙂", 0).size, 4);
  for (const char* wrong :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xE4\xB8", "\xF0\x9F\x99"}) {
    EXPECT_FALSE(decode_utf8(wrong, 0).valid) << wrong;
    EXPECT_EQ(decode_utf8(wrong, 0).size, 1) << wrong;
    EXPECT_FALSE(is_valid_utf8(wrong));
  }
}

TEST(Utf8, EveryScalarValueComesBack) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string bytes;
    append_utf8(bytes, c);
    CodePoint back = decode_utf8(bytes, 0);
    ASSERT_TRUE(back.valid && back.value == c && back.size == bytes.size())
        << static_cast<uint32_t>(c);
  }
}

// Unicode 15, section 3.9, tables 3-8 to 3-11: one U+FFFD for each maximal part.
TEST(Utf8, ReplacesMaximalPartsAsTheStandardShows) {
  EXPECT_EQ(to_valid_utf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD"
            "A");
  EXPECT_EQ(to_valid_utf8("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD"
            "A");
  EXPECT_EQ(to_valid_utf8("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD"
            "A\uFFFD\uFFFD"
            "B");
  EXPECT_EQ(to_valid_utf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"),
            "\uFFFD\uFFFD\uFFFD\uFFFD"
            "A");
}

TEST(Utf8, IncompleteSuffixIsWhatCouldStillBecomeACharacter) {
  const std::string text = "aé世🙂";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    std::string_view head = std::string_view(text).substr(0, cut);
    size_t incomplete = incomplete_suffix_bytes(head);
    EXPECT_TRUE(is_valid_utf8(head.substr(0, cut - incomplete))) << cut;
    EXPECT_EQ(incomplete > 0, !is_valid_utf8(head)) << cut;
  }
  EXPECT_EQ(incomplete_suffix_bytes("\x80\x80\x80\x80"), 0u);
  EXPECT_EQ(incomplete_suffix_bytes("\xE0\x80"), 0u);
  EXPECT_EQ(incomplete_suffix_bytes("\xFF"), 0u);
  EXPECT_EQ(incomplete_suffix_bytes("\xF4\x8F\xBF"), 3u);
}

TEST(Utf8, ClassesOfKnownCharacters) {
  for (char32_t letter :
       {U'a', U'Z', U'é', U'Ж', U'世', U'ﬁ', U'ª', char32_t{0x10400}, char32_t{0x20000}})
    EXPECT_EQ(char_class(letter), CharClass::kLetter) << static_cast<uint32_t>(letter);
  for (char32_t number : {U'0', U'²', U'½', U'Ⅷ', U'٣', U'①', char32_t{0x1D7CE}})
    EXPECT_EQ(char_class(number), CharClass::kNumber) << static_cast<uint32_t>(number);
  for (char32_t space : {U' ', U'\t', U'\v', U'\r', char32_t{0x85}, char32_t{0xA0},
                         char32_t{0x1680}, char32_t{0x2028}, char32_t{0x3000}})
    EXPECT_EQ(char_class(space), CharClass::kSpace) << static_cast<uint32_t>(space);
  for (char32_t other :
       {U'!', U'_', U'\0', char32_t{0x1C}, char32_t{0x180E}, char32_t{0x200B}, char32_t{0x301},
        char32_t{0x1F642}, char32_t{0x10FFFF}, char32_t{0xD800}, char32_t{0x110000}})
    EXPECT_EQ(char_class(other), CharClass::kOther) << static_cast<uint32_t>(other);
}

}  // namespace
}  // namespace ridge::text
