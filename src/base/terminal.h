// SPDX-License-Identifier: Apache-2.0
// Command-line output for people: tables, colour, a progress bar. Not logging, and nothing here
// decides to print: tables and painted text are strings. Widths count characters of UTF-8 as one
// column each, escape sequences as none.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ridge {
inline namespace base {

// What the user's terminal takes. The default is a file or a pipe: plain text, no progress.
struct TerminalOptions {
  bool colour = false;    // escape sequences in what goes to stdout
  bool progress = false;  // a progress bar on stderr
  int columns = 100;      // width of a line
  bool fit = false;       // stdout wraps what is wider: tables rather leave columns out
};

enum class Colour { kBold, kDim, kRed, kGreen, kYellow, kBlue, kMagenta, kCyan };

// The text in that colour, or unchanged where options.colour is off.
std::string paint(std::string_view text, Colour colour, const TerminalOptions& options);

// Foreign text (file names, names in files, option values) on one line and harmless: control
// characters become \xNN; marks that change the direction of text or are invisible (U+202E, U+200B)
// become \uNNNN; bytes that are not UTF-8 become U+FFFD. Never throws. Messages quote with printable().
std::string terminal_safe(std::string_view bytes);
// The same for the text that a model writes: line ends, tabs and the marks stay.
std::string terminal_safe_text(std::string_view bytes);

// Columns that the text takes on a terminal.
int display_width(std::string_view text);

enum class Align { kLeft, kRight };

// Rows of cells under a header, aligned by spaces. Cells may be painted; a newline in a cell
// becomes a space.
class Table {
 public:
  struct Column {
    std::string header;
    Align align = Align::kRight;
    int spare = 0;  // where lines are too short the highest goes first; 0 always stays
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // All columns as numbers are set: to the right.
  static Table of_numbers(const std::vector<std::string>& headers) {
    std::vector<Column> columns;
    for (const std::string& header : headers) columns.push_back({header});
    return Table(std::move(columns));
  }

  // At most one cell a column; the missing ones are empty.
  void add(std::vector<std::string> cells);
  void add_rule();  // a line between rows, before a total for instance
  size_t rows() const { return rows_.size(); }

  // Ends in a newline. The header is bold where colour is on, and underlined by a rule otherwise.
  // What options.fit leaves out is named below.
  std::string text(const TerminalOptions& options = {}) const;
  // A GitHub-flavoured table; rules are left out, escape sequences too.
  std::string markdown() const;

 private:
  std::vector<int> widths() const;
  // The table without its most spare columns, and their headers, so that lines of `columns` hold it
  // as far as spare ones go.
  std::pair<Table, std::vector<std::string>> fitted(int columns) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;  // an empty row is a rule
};

// A bar on stderr for work that lasts: label, share, count, rate, time left. It appears after two
// seconds, is drawn at most ten times a second, and clears itself. One thread ticks. Does nothing
// where options.progress is off.
class Progress {
 public:
  using Clock = std::function<std::chrono::nanoseconds()>;  // monotonic; tests bring their own

  // `total` 0: the end is unknown, and no share or time left is shown. `unit` as in "1.2 k
  // tokens/s".
  Progress(std::string label,
           int64_t total,
           std::string unit,
           const TerminalOptions& options,
           std::FILE* out = stderr,
           Clock clock = {});
  ~Progress() { hide(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `count` more are done; `note` stands at the end of the line ("loss 6.99"). A note's foreign
  // bytes go through terminal_safe.
  void tick(int64_t count, std::string_view note = {});
  // Takes the bar off the screen, before other output; the next tick may draw it again.
  void hide();
  // The line as it would be drawn after `elapsed`, at most options.columns - 1 wide.
  std::string line(std::chrono::nanoseconds elapsed, std::string_view note) const;

 private:
  std::string label_;
  int64_t total_;
  std::string unit_;
  TerminalOptions options_;
  std::FILE* out_;
  Clock clock_;
  std::chrono::nanoseconds start_;
  std::chrono::nanoseconds drawn_at_{-1};
  int64_t done_ = 0;
  int drawn_width_ = 0;
};

}  // namespace base
}  // namespace ridge
