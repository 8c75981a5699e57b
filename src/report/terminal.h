// SPDX-License-Identifier: Apache-2.0
// Command-line output for people: tables, colour and a progress bar. Not for logging. Tables and
// coloured text are returned as strings; only Progress prints. Widths count each UTF-8 character as
// one column and escape sequences as none.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/printable.h"

namespace ridge::report {

// Capabilities of the user's terminal. The default suits a file or a pipe: plain text, no progress.
struct TerminalOptions {
  bool colour = false;    // escape sequences on stdout
  bool progress = false;  // a progress bar on stderr
  int columns = 100;      // width of a line
  bool fit = false;       // stdout wraps wider lines, so tables leave columns out
};

enum class Colour { kBold, kDim, kRed, kGreen, kYellow, kCyan };

// The text in that colour, or unchanged if options.colour is off.
std::string paint(std::string_view text, Colour colour, const TerminalOptions& options);

// A bar of `width` columns, of which share * width are filled, rounded to an eighth of a column.
// The share is clamped to [0, 1].
std::string text_bar(double share, int width);

// Columns that the text takes on a terminal.
int display_width(std::string_view text);

enum class Align { kLeft, kRight };

// Breaks the lines of `text` at spaces so that each is at most `columns` wide; only a longer word
// is wider. Each line starts with `indent`, and the rest of a broken line also with the line's own
// leading spaces. Ends in a newline.
std::string wrap_lines(std::string_view text, int columns, std::string_view indent = "");

// Rows of cells under a header, aligned by spaces. Cells may be painted; a newline in a cell
// becomes a space.
class Table {
 public:
  struct Column {
    std::string header;
    Align align = Align::kRight;
    // If lines are too long, the highest is left out first; 0 always stays. The others of a table
    // are 1, 2, ..., each once.
    int spare = 0;
  };
  explicit Table(std::vector<Column> columns);
  // The columns as a line: "<op | calls ?2 | time ?1", where "<" aligns to the left and "?2" is
  // `spare`.
  template <std::convertible_to<std::string_view> Text>
  explicit Table(const Text& columns) : Table(parsed(columns)) {}
  // The same after a first column on the left, whose header may be any text.
  static Table titled(std::string first, std::string_view columns);

  // Adds a row of at most one cell per column; missing cells are empty.
  void add(std::vector<std::string> cells);
  void add_rule();  // a line between rows, before a total for instance
  size_t rows() const { return rows_.size(); }

  // Ends in a newline. The header is bold if colour is on, and underlined by a rule otherwise.
  // Columns left out because of options.fit are listed below the table. If lines are still too
  // long, the longest cells are cut and end in "…".
  std::string text(const TerminalOptions& options = {}) const;
  // A GitHub-flavoured Markdown table, without rules and escape sequences.
  std::string markdown() const;

 private:
  static std::vector<Column> parsed(std::string_view columns);
  std::vector<int> widths() const;
  // Leaves out columns, the highest `spare` first, until lines fit in `columns` or no spare column
  // is left. Returns the narrower table and the headers of the columns left out.
  std::pair<Table, std::vector<std::string>> fitted(int columns) const;
  void cut_cells(int columns);

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;  // an empty row is a rule
};

// A progress bar on stderr for long work: label, share, count, rate, time left. It appears after
// two seconds, is drawn at most ten times a second, and clears itself. Only one thread may call
// tick. Does nothing if options.progress is off.
class Progress {
 public:
  using Clock = std::function<std::chrono::nanoseconds()>;  // monotonic; tests pass their own

  // If `total` is 0, the end is unknown and no share or time left is shown. `unit` is used as in
  // "1.2 k tokens/s"; if it is empty, only the share and the time left are shown.
  Progress(std::string label,
           int64_t total,
           std::string unit,
           const TerminalOptions& options,
           std::FILE* out = stderr,
           Clock clock = {});
  ~Progress() { hide(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Counts `count` more as done. `note` is shown at the end of the line ("loss 6.99"), after
  // terminal_safe.
  void tick(int64_t count, std::string_view note = {});
  // Counts so much as done in all.
  void reach(int64_t done, std::string_view note = {}) { tick(done - done_, note); }
  // Removes the bar from the screen before other output; the next tick may draw it again.
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

}  // namespace ridge::report
