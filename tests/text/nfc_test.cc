// SPDX-License-Identifier: Apache-2.0
// NFC against utf8proc's own, which sorts and composes a whole text at once, and against the claims
// of the table of characters that are left alone.
#include "text/nfc.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include <chrono>
#include <cstdlib>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "text/utf8.h"

namespace ridge::text {
namespace {

std::string utf8(char32_t value) {
  std::string text;
  append_utf8(text, value);
  return text;
}

std::string normalized(const std::string& text) { return to_nfc(text).value_or(text); }

// `text` must be valid UTF-8 without NUL.
std::string by_utf8proc(const std::string& text) {
  utf8proc_uint8_t* made = utf8proc_NFC(reinterpret_cast<const utf8proc_uint8_t*>(text.c_str()));
  std::string result(reinterpret_cast<const char*>(made));
  std::free(made);
  return result;
}

bool is_scalar(char32_t c) { return c < 0xD800 || (c > 0xDFFF && c < 0x110000); }

std::vector<char32_t> decomposed(char32_t c) {
  std::vector<utf8proc_int32_t> out(32);
  int boundary = 0;
  const utf8proc_ssize_t size = utf8proc_decompose_char(
      static_cast<utf8proc_int32_t>(c), out.data(), 32,
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE), &boundary);
  return {out.begin(), out.begin() + size};
}

// All characters that a composition has in another place than the first.
std::set<char32_t> seconds() {
  std::set<char32_t> found;
  for (char32_t c = 1; c < 0x110000; ++c) {
    if (!is_scalar(c)) continue;
    const std::vector<char32_t> parts = decomposed(c);
    found.insert(parts.begin() + 1, parts.end());
  }
  return found;
}

TEST(Nfc, LeavesAloneOnlyWhatStaysAndCombinesWithNothingBefore) {
  const std::set<char32_t> combine = seconds();
  EXPECT_GT(combine.size(), 80u);
  int64_t inert = 0;
  for (char32_t c = 1; c < 0x110000; ++c) {
    if (!is_scalar(c) || !is_nfc_inert(c)) continue;
    ++inert;
    ASSERT_EQ(by_utf8proc(utf8(c)), utf8(c)) << static_cast<uint32_t>(c);
    ASSERT_EQ(utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->combining_class, 0)
        << static_cast<uint32_t>(c);
    ASSERT_FALSE(combine.contains(c)) << static_cast<uint32_t>(c);
  }
  EXPECT_GT(inert, 40000);
}

TEST(Nfc, EveryCharacterAlone) {
  for (char32_t c = 1; c < 0x110000; ++c) {
    if (!is_scalar(c)) continue;
    ASSERT_EQ(normalized(utf8(c)), by_utf8proc(utf8(c))) << static_cast<uint32_t>(c);
    ASSERT_EQ(normalized("a" + utf8(c) + "b"), by_utf8proc("a" + utf8(c) + "b"))
        << static_cast<uint32_t>(c);
  }
}

// The texts mix all parts of compositions, in any order, with letters that stay.
TEST(Nfc, RandomTextsOfWhatComposes) {
  std::vector<char32_t> alphabet{'a', 'e', 'o', ' ', '>', 0x4E2D, 0x1F600, 0xAC00, 0xAC01, 0x1100};
  for (char32_t c = 1; c < 0x110000; ++c) {
    if (!is_scalar(c)) continue;
    const std::vector<char32_t> parts = decomposed(c);
    if (parts.size() < 2 || (c >= 0xAC00 && c <= 0xD7A3)) continue;
    alphabet.push_back(c);
    alphabet.insert(alphabet.end(), parts.begin(), parts.end());
  }
  for (char32_t c : seconds()) alphabet.insert(alphabet.end(), 20, c);
  std::mt19937 random(3);
  int changed = 0;
  for (int i = 0; i < 40000; ++i) {
    std::string text;
    for (size_t n = random() % 12; n > 0; --n) text += utf8(alphabet[random() % alphabet.size()]);
    const std::string made = normalized(text);
    ASSERT_EQ(made, by_utf8proc(text)) << text;
    ASSERT_EQ(to_nfc(made), std::nullopt) << text;  // it is there already
    changed += made == text ? 0 : 1;
  }
  EXPECT_GT(changed, 10000);
}

TEST(Nfc, KnownTexts) {
  EXPECT_EQ(to_nfc(""), std::nullopt);
  EXPECT_EQ(to_nfc("plain \xC3\xA9"), std::nullopt);
  EXPECT_EQ(to_nfc("cafe\u0301!"), "caf\u00E9!");
  EXPECT_EQ(to_nfc("\u1112\u1161\u11AB\u1100\u1173\u11AF"), "\uD55C\uAE00");  // Hangul
  EXPECT_EQ(to_nfc("\u212B \u2126 \uF900"), "\u00C5 \u03A9 \u8C48");          // singletons
  EXPECT_EQ(to_nfc("a\u0315\u0300"), "\u00E0\u0315");                         // marks in order
  EXPECT_EQ(to_nfc("\u0915\u093C"), std::nullopt);                            // never composed
}

// Bytes that are not UTF-8 stay, and no mark combines over them.
TEST(Nfc, BytesThatAreNoTextStay) {
  EXPECT_EQ(to_nfc("e\xFF\u0301"), std::nullopt);
  EXPECT_EQ(to_nfc("e\u0301\xFF"), "\u00E9\xFF");
  EXPECT_EQ(to_nfc("\xCC"), std::nullopt);
  EXPECT_EQ(to_nfc("e\xCC"), std::nullopt);
  EXPECT_EQ(to_nfc(std::string("\0e\u0301", 4)), std::string("\0\u00E9", 3));
  std::mt19937 random(5);
  for (int i = 0; i < 20000; ++i) {
    std::string bytes(random() % 24, '\0');
    for (char& c : bytes)
      c = static_cast<char>(random() % 2 == 0 ? random() : "e\xCC\x81\xE1\x85\xA1"[random() % 6]);
    const std::string made = normalized(bytes);
    ASSERT_EQ(normalized(made), made);
    // The same text with what is not UTF-8 cut out, part by part.
    std::string expected;
    for (size_t at = 0; at < bytes.size();) {
      std::string valid;
      CodePoint c{};
      for (; at < bytes.size() && (c = decode_utf8(bytes, at)).valid && c.value != 0; at += c.size)
        valid.append(bytes, at, c.size);
      expected += by_utf8proc(valid);
      if (at < bytes.size()) expected += bytes[at++];
    }
    ASSERT_EQ(made, expected);
  }
}

// A megabyte of marks that are all out of order: a sort in quadratic time would take hours.
TEST(Nfc, LongRunsOfMarksAreSorted) {
  std::string text = "a", expected = "a";
  constexpr int kMarks = 200'000;
  for (int i = 0; i < kMarks; ++i) text += i % 2 == 0 ? "\u0315" : "\u0316";
  for (int i = 0; i < kMarks; ++i) expected += i < kMarks / 2 ? "\u0316" : "\u0315";
  EXPECT_EQ(normalized(text), expected);
}

}  // namespace
}  // namespace ridge::text
