// SPDX-License-Identifier: Apache-2.0
// Tables, foreign bytes and the progress bar, drawn into a file with the test's own clock.
#include "base/terminal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>

#include "base/error.h"

namespace ridge {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

const TerminalOptions kPlain;
const TerminalOptions kColour{.colour = true};

TEST(Table, AlignsColumns) {
  Table table({{"op", Align::kLeft}, {"time"}});
  table.add({"matmul", "1.30 ms"});
  table.add({"é", "7 ns"});
  table.add_rule();
  table.add({"total"});
  EXPECT_EQ(table.text(),
            "op         time\n"
            "───────────────\n"
            "matmul  1.30 ms\n"
            "é          7 ns\n"
            "───────────────\n"
            "total\n");
}

TEST(Table, LeavesSpareColumnsOutOfNarrowTerminals) {
  Table table(
      {{"op", Align::kLeft}, {"calls", Align::kRight, 1}, {"bytes", Align::kRight, 2}, {"time"}});
  table.add({"matmul", "3", "12", "9 ms"});
  table.add_rule();
  table.add({"idle"});
  TerminalOptions options;
  std::string whole = table.text(options);
  options.columns = 26;
  EXPECT_EQ(table.text(options), whole) << "a pipe takes any width";
  options.fit = true;
  EXPECT_EQ(table.text(options), whole) << "26 columns are enough";
  options.columns = 25;
  EXPECT_EQ(table.text(options),
            "op      calls  time\n"
            "───────────────────\n"
            "matmul      3  9 ms\n"
            "───────────────────\n"
            "idle\n"
            "not shown at this width:\nbytes\n");
  options.columns = 5;
  EXPECT_EQ(table.text(options),
            "op      time\n"
            "────────────\n"
            "matmul  9 ms\n"
            "────────────\n"
            "idle\n"
            "not\nshown\nat\nthis\nwidth:\ncalls,\nbytes\n");
}

TEST(Table, CutsCellsWhereNoColumnCanGo) {
  Table table({{"operation", Align::kLeft}, {"time"}});
  table.add({paint("a very long name", Colour::kRed, kColour), "9 ms"});
  EXPECT_EQ(table.text({.columns = 16, .fit = true}),
            "operation   time\n"
            "────────────────\n"
            "a very lo…  9 ms\n");
}

TEST(WrapLines, BreaksAtSpacesAndKeepsIndents) {
  EXPECT_EQ(wrap_lines("a bc def", 4), "a bc\ndef\n");
  EXPECT_EQ(wrap_lines("  a bc def\ng\n", 6), "  a bc\n  def\ng\n");
  EXPECT_EQ(wrap_lines("abcdef gh", 4, "> "), "> abcdef\n> gh\n");
  EXPECT_EQ(wrap_lines("a    b", 6), "a    b\n");
  EXPECT_EQ(wrap_lines("a    b", 5), "a\nb\n");
  EXPECT_EQ(wrap_lines("é é", 3), "é é\n");
  EXPECT_EQ(wrap_lines(paint("x", Colour::kRed, kColour) + " y", 3),
            paint("x", Colour::kRed, kColour) + " y\n");
  EXPECT_EQ(wrap_lines("a\n\nb", 4), "a\n\nb\n");
  EXPECT_EQ(wrap_lines("", 4), "");
}

TEST(Table, PaintTakesNoRoom) {
  Table table({{"a", Align::kLeft}, {"b", Align::kLeft}});
  table.add({paint("x", Colour::kRed, kColour), "y"});
  EXPECT_EQ(table.text(kColour), "\x1b[1ma  b\x1b[0m\n\x1b[31mx\x1b[0m  y\n");
}

TEST(Table, MarkdownEscapesBars) {
  Table table({{"op", Align::kLeft}, {"share"}});
  table.add({"a|b", paint("3%", Colour::kBold, kColour)});
  table.add_rule();
  table.add({"two\nlines"});
  EXPECT_EQ(table.markdown(),
            "| op | share |\n"
            "| --- | ---: |\n"
            "| a\\|b | 3% |\n"
            "| two lines |  |\n");
}

TEST(Table, RefusesARowThatIsTooLong) {
  Table table({{"a"}});
  EXPECT_THROW(table.add({"1", "2"}), InternalError);
}

TEST(Table, WithoutRowsIsItsHeader) { EXPECT_EQ(Table({{"a"}}).text(), "a\n─\n"); }

TEST(Paint, IsPlainWhereColourIsOff) {
  EXPECT_EQ(paint("x", Colour::kRed, kPlain), "x");
  EXPECT_EQ(paint("x", Colour::kCyan, kColour), "\x1b[36mx\x1b[0m");
}

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

TEST(DisplayWidth, CountsCharacters) {
  EXPECT_EQ(display_width(""), 0);
  EXPECT_EQ(display_width("█▏é"), 3);
  EXPECT_EQ(display_width("\x1b[31mred\x1b[0m"), 3);
  EXPECT_EQ(display_width("\x1b["), 0);
}

class ProgressBar : public testing::Test {
 protected:
  ~ProgressBar() override {
    file_.reset();
    std::free(text_);
  }
  Progress progress(int64_t total, bool terminal = true) {
    TerminalOptions options{.progress = terminal};
    return {"training", total, "steps", options, file_.get(), [this] { return now_; }};
  }
  std::string drawn() {
    std::fflush(file_.get());
    return std::string(text_, bytes_);
  }

  nanoseconds now_{12345};

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  char* text_ = nullptr;
  size_t bytes_ = 0;
  std::unique_ptr<std::FILE, Close> file_{::open_memstream(&text_, &bytes_)};
};

TEST_F(ProgressBar, AppearsAfterTwoSecondsAndClearsItself) {
  {
    Progress bar = progress(10);
    now_ += milliseconds(1999);
    bar.tick(1);
    EXPECT_EQ(drawn(), "");
    now_ += milliseconds(1);
    bar.tick(1, "loss 6.99");
    EXPECT_EQ(
        drawn(),
        "\rtraining  ████                  20%  2/10 steps  1.00 steps/s  8.00 s left  loss 6.99");
  }
  std::string text = drawn();
  int width = display_width(text.substr(1, text.find('\r', 1) - 1));
  std::string wiped = "\r" + std::string(static_cast<size_t>(width), ' ') + "\r";
  EXPECT_EQ(text.substr(text.size() - wiped.size()), wiped);
}

TEST_F(ProgressBar, IsDrawnAtMostTenTimesASecond) {
  Progress bar = progress(1000);
  now_ += milliseconds(2000);
  for (int i = 0; i < 500; ++i) {
    bar.tick(1);
    now_ += milliseconds(2);
  }
  std::string text = drawn();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\r'), 10);
}

TEST_F(ProgressBar, OverwritesALongerLine) {
  Progress bar = progress(4);
  now_ += milliseconds(2000);
  bar.tick(1, "a long note");
  size_t first = drawn().size();
  now_ += milliseconds(2000);
  bar.tick(1);
  std::string second = drawn().substr(first);
  EXPECT_GE(display_width(second.substr(1)), display_width(drawn().substr(1, first - 1)));
}

TEST_F(ProgressBar, IsSilentWhereNoTerminalIs) {
  {
    Progress bar = progress(10, false);
    now_ += milliseconds(60000);
    bar.tick(5);
  }
  EXPECT_EQ(drawn(), "");
}

TEST_F(ProgressBar, HidesAndComesBack) {
  Progress bar = progress(10);
  now_ += milliseconds(2000);
  bar.tick(1);
  bar.hide();
  size_t hidden = drawn().size();
  bar.hide();
  EXPECT_EQ(drawn().size(), hidden);
  bar.tick(1);
  EXPECT_GT(drawn().size(), hidden);
}

TEST_F(ProgressBar, WithoutATotalShowsNoShare) {
  Progress bar = progress(0);
  now_ += milliseconds(4000);
  bar.tick(2048);
  EXPECT_EQ(drawn(), "\rtraining  2,048 steps  512 steps/s");
}

TEST_F(ProgressBar, FitsTheTerminalAndDisarmsNotes) {
  TerminalOptions narrow{.progress = true, .columns = 40};
  Progress bar("tokenising a corpus of text", 1000, "tokens", narrow, nullptr);
  EXPECT_EQ(display_width(bar.line(milliseconds(2500), "note")), 39);
  Progress wide("x", 0, "steps", {.progress = true, .columns = 200}, nullptr);
  EXPECT_NE(wide.line(milliseconds(2500), "\x1b[2J").find("\\x1b[2J"), std::string::npos);
}

}  // namespace
}  // namespace ridge
