// SPDX-License-Identifier: Apache-2.0
// Tables, bars and the progress bar, drawn into a file with the test's own clock.
#include "report/terminal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/error.h"

namespace ridge::report {
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

TEST(TextBar, FillsEighths) {
  EXPECT_EQ(text_bar(0, 4), "    ");
  EXPECT_EQ(text_bar(1, 4), "████");
  EXPECT_EQ(text_bar(0.5, 4), "██  ");
  EXPECT_EQ(text_bar(1.0 / 32, 4), "▏   ");
  EXPECT_EQ(text_bar(31.0 / 32, 4), "███▉");
  EXPECT_EQ(text_bar(0.5, 0), "");
}

TEST(TextBar, CutsSharesOutsideTheRange) {
  EXPECT_EQ(text_bar(1.7, 3), "███");
  EXPECT_EQ(text_bar(-1, 3), "   ");
  EXPECT_EQ(text_bar(std::nan(""), 3), "   ");
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
  // The bar gets shorter before a note is cut.
  Progress whole("lab", 44, "steps", {.progress = true, .columns = 80}, nullptr);
  EXPECT_TRUE(whole.line(milliseconds(2500), "baseline, loss 6.9646").ends_with(" loss 6.9646"));
  EXPECT_EQ(Progress("x", 1000, "", narrow, nullptr).line(milliseconds(2500), "memory"),
            "x             0%  memory");
  Progress wide("x", 0, "steps", {.progress = true, .columns = 200}, nullptr);
  EXPECT_NE(wide.line(milliseconds(2500), "\x1b[2J").find("\\x1b[2J"), std::string::npos);
}

}  // namespace
}  // namespace ridge::report
