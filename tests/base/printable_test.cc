// SPDX-License-Identifier: Apache-2.0
// Foreign bytes on a terminal.
#include "base/printable.h"

#include <gtest/gtest.h>

#include <random>

#include "base/terminal_json.h"

namespace ridge {
namespace {

TEST(TerminalSafe, LeavesTextAndDisarmsControls) {
  EXPECT_EQ(terminal_safe("grün 模型 😀 │"), "grün 模型 😀 │");
  EXPECT_EQ(terminal_safe("a\x1b[31mb\n\x7f"), "a\\x1b[31mb\\x0a\\x7f");
  EXPECT_EQ(terminal_safe("\xC2\x9B"), "\\x9b");  // the one-character form of ESC [
  EXPECT_EQ(terminal_safe(std::string_view("\0", 1)), "\\x00");
}

TEST(TerminalSafe, CutsLongNames) {
  const std::string name(kLongestName, 'x'), characters = std::string(kLongestName - 1, 'x') + "字";
  EXPECT_EQ(terminal_safe(name), name);
  EXPECT_EQ(terminal_safe(name + "yz"), name + "... (202 bytes)");
  EXPECT_EQ(terminal_safe(characters + "y"), characters + "... (203 bytes)");  // whole characters
  std::string escapes;
  for (size_t i = 0; i < kLongestName / 4; ++i) escapes += "\\x1b";
  EXPECT_EQ(terminal_safe(std::string(kLongestName / 4, '\x1b')), escapes);
  EXPECT_EQ(terminal_safe(std::string(9000, '\x1b')), escapes + "... (9000 bytes)");
  EXPECT_EQ(terminal_safe(name + "yz", kWholeText), name + "yz");
}

TEST(TerminalSafe, ShowsMarksThatHide) {
  EXPECT_EQ(terminal_safe("a\u202Eb\u2066c\u200Bd\uFEFFe\u200Ff\u2028"),
            "a\\u202eb\\u2066c\\u200bd\\ufeffe\\u200ff\\u2028");
  EXPECT_EQ(terminal_safe("\U000E0041"), "\\ue0041");
  EXPECT_EQ(terminal_safe("é ß 字 ✔️"), "é ß 字 ✔️");
}

TEST(TerminalSafeText, KeepsLinesAndMarks) {
  EXPECT_EQ(terminal_safe_text("a\n\tb\u200Dc\x1b[2J\r\xC2\x9Bz\xFF"),
            "a\n\tb\u200Dc\\x1b[2J\\x0d\\x9bz\uFFFD");
}

TEST(TerminalSafeJson, EscapesWhatJsonLeaves) {
  EXPECT_EQ(terminal_safe_json("{\"a\": \"\\u001b plain\"}"), "{\"a\": \"\\u001b plain\"}");
  EXPECT_EQ(terminal_safe_json("\"\x7f\u009b\u202E\u00e9 \U000E0041\""),
            "\"\\u007f\\u009b\\u202e\u00e9 \\udb40\\udc41\"");
}

TEST(TerminalSafe, ReplacesWhatIsNotUtf8) {
  EXPECT_EQ(terminal_safe("\xFF"), "\uFFFD");
  EXPECT_EQ(terminal_safe("\xE2\x82"), "\uFFFD\uFFFD");            // truncated
  EXPECT_EQ(terminal_safe("\xC0\xAF"), "\uFFFD\uFFFD");            // overlong
  EXPECT_EQ(terminal_safe("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");  // a surrogate
  EXPECT_EQ(terminal_safe("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(terminal_safe("\x80z"), "\uFFFDz");
}

TEST(TerminalSafe, OfRandomBytesHasNoControls) {
  std::mt19937 random(5);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes;
    for (int i = 0; i < 12; ++i) bytes += static_cast<char>(random());
    std::string text = terminal_safe(bytes);
    for (char c : text) ASSERT_TRUE(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
    ASSERT_EQ(terminal_safe(text), text);  // so the text is also well-formed
  }
}

}  // namespace
}  // namespace ridge
