// SPDX-License-Identifier: Apache-2.0
// Implements tables, colours and the progress bar.
#include "report/terminal.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/printable.h"
#include "base/units.h"

namespace ridge::report {
namespace {

constexpr char kEscape = '\x1b';
constexpr std::chrono::nanoseconds kAppearsAfter = std::chrono::seconds(2);
constexpr std::chrono::nanoseconds kRedrawsEvery = std::chrono::milliseconds(100);

constexpr int kGap = 2;        // between a table's columns
constexpr int kNarrowest = 8;  // a column's cells are not cut below this width

// Width of one line of a table.
int line_width(const std::vector<int>& widths) {
  int total = 0;
  for (int width : widths) total += width + kGap;
  return std::max(total - kGap, 0);
}

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0u) == 0x80u; }

// Length in bytes of the escape sequence at the start of the text; 0 if there is none.
size_t escape_length(std::string_view text) {
  if (text.size() < 2 || text[0] != kEscape || text[1] != '[') return 0;
  size_t end = 2;
  while (end < text.size() && (text[end] < 0x40 || text[end] > 0x7e)) ++end;
  return std::min(end + 1, text.size());
}

// The longest prefix that fits in `columns`; the text must have no escape sequences.
std::string_view cut(std::string_view text, int columns) {
  size_t end = 0;
  for (; end < text.size(); ++end)
    if (!is_continuation(text[end]) && columns-- <= 0) break;
  return text.substr(0, end);
}

std::string without_escapes(std::string_view text) {
  std::string plain;
  while (!text.empty()) {
    size_t escape = escape_length(text);
    if (escape == 0) plain += text[0];
    text.remove_prefix(std::max<size_t>(escape, 1));
  }
  return plain;
}

std::string markdown_cell(std::string_view cell) {
  std::string escaped;
  for (char c : without_escapes(cell)) {
    if (c == '|') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string repeat(std::string_view piece, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += piece;
  return text;
}

}  // namespace

std::string paint(std::string_view text, Colour colour, const TerminalOptions& options) {
  if (!options.colour || text.empty()) return std::string(text);
  constexpr int kCodes[] = {1, 2, 31, 32, 33, 36};  // in the order of Colour
  return fmt::format("\x1b[{}m{}\x1b[0m", kCodes[static_cast<size_t>(colour)], text);
}

std::string text_bar(double share, int width) {
  constexpr int kParts = 8;
  constexpr const char* kPartial[kParts] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  double full = std::isnan(share) ? 0 : std::clamp(share, 0.0, 1.0);
  auto parts = static_cast<int>(std::lround(full * width * kParts));
  std::string text;
  for (int i = 0; i < parts / kParts; ++i) text += "█";
  text += kPartial[parts % kParts];
  int used = (parts + kParts - 1) / kParts;
  return text + std::string(static_cast<size_t>(width - used), ' ');
}

int display_width(std::string_view text) {
  int width = 0;
  while (!text.empty()) {
    size_t escape = escape_length(text);
    if (escape == 0 && !is_continuation(text[0])) ++width;
    text.remove_prefix(std::max<size_t>(escape, 1));
  }
  return width;
}

std::string wrap_lines(std::string_view text, int columns, std::string_view indent) {
  std::string lines;
  while (!text.empty()) {
    std::string_view rest = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(rest.size() + 1, text.size()));
    const std::string start =
        std::string(indent) + std::string(std::min(rest.find_first_not_of(' '), rest.size()), ' ');
    rest.remove_prefix(start.size() - indent.size());
    std::string line = start;
    while (!rest.empty()) {
      const std::string_view word = rest.substr(0, rest.find(' ', rest.find_first_not_of(' ')));
      rest.remove_prefix(word.size());
      if (line != start && display_width(line) + display_width(word) > columns) {
        lines += line + "\n";
        line = start;
      }
      line +=
          line == start ? word.substr(std::min(word.find_first_not_of(' '), word.size())) : word;
    }
    lines += line + "\n";
  }
  return lines;
}

std::vector<Table::Column> Table::parsed(std::string_view text) {
  std::vector<Table::Column> columns;
  while (!text.empty()) {
    std::string_view cell = text.substr(0, text.find(" | "));
    text.remove_prefix(std::min(text.size(), cell.size() + 3));
    Table::Column column;
    if (cell.starts_with('<')) {
      column.align = Align::kLeft;
      cell.remove_prefix(1);
    }
    const size_t mark = cell.find(" ?");
    if (mark != cell.npos) column.spare = std::stoi(std::string(cell.substr(mark + 2)));
    column.header = cell.substr(0, mark);
    columns.push_back(std::move(column));
  }
  return columns;
}

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {
  std::vector<int> order;
  for (const Column& column : columns_)
    if (column.spare != 0) order.push_back(column.spare);
  std::sort(order.begin(), order.end());
  for (size_t i = 0; i < order.size(); ++i)
    RIDGE_CHECK(order[i] == static_cast<int>(i) + 1, "expected spare columns 1, 2, ..., got {}",
                fmt::join(order, ", "));
}

Table Table::titled(std::string first, std::string_view columns) {
  Table table("< | " + std::string(columns));
  table.columns_.front().header = std::move(first);
  return table;
}

void Table::add(std::vector<std::string> cells) {
  RIDGE_CHECK(cells.size() <= columns_.size(), "a row of {} cells in a table of {} columns",
              cells.size(), columns_.size());
  cells.resize(columns_.size());
  for (std::string& cell : cells) std::replace(cell.begin(), cell.end(), '\n', ' ');
  rows_.push_back(std::move(cells));
}

void Table::add_rule() { rows_.emplace_back(); }

std::vector<int> Table::widths() const {
  std::vector<int> widths;
  for (const Column& column : columns_) widths.push_back(display_width(column.header));
  for (const std::vector<std::string>& row : rows_)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], display_width(row[i]));
  return widths;
}

std::pair<Table, std::vector<std::string>> Table::fitted(int columns) const {
  std::vector<int> width = widths();
  int total = line_width(width);
  std::vector<size_t> order(columns_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return columns_[a].spare > columns_[b].spare; });
  std::vector<bool> stays(columns_.size(), true);
  for (size_t column : order) {
    if (total <= columns || columns_[column].spare == 0) break;
    stays[column] = false;
    total -= width[column] + kGap;
  }
  Table narrow("");
  std::vector<std::string> left_out;
  for (size_t i = 0; i < columns_.size(); ++i)
    if (stays[i])
      narrow.columns_.push_back(columns_[i]);
    else
      left_out.push_back(columns_[i].header);
  for (const std::vector<std::string>& row : rows_) {
    std::vector<std::string>& cells = narrow.rows_.emplace_back();
    for (size_t i = 0; i < row.size(); ++i)
      if (stays[i]) cells.push_back(row[i]);
  }
  narrow.cut_cells(columns);
  return {std::move(narrow), std::move(left_out)};
}

void Table::cut_cells(int columns) {
  for (;;) {
    const std::vector<int> width = widths();
    const auto widest = std::max_element(width.begin(), width.end());
    const int excess = line_width(width) - columns;
    if (excess <= 0 || *widest <= kNarrowest) return;
    const int room = std::max(*widest - excess, kNarrowest);
    const auto column = static_cast<size_t>(widest - width.begin());
    auto shorten = [room](std::string& cell) {
      if (display_width(cell) > room)
        cell = std::string(cut(without_escapes(cell), room - 1)) + "…";
    };
    shorten(columns_[column].header);
    for (std::vector<std::string>& row : rows_)
      if (!row.empty()) shorten(row[column]);
  }
}

std::string Table::text(const TerminalOptions& options) const {
  std::vector<int> width = widths();
  int total = line_width(width);
  if (options.fit && total > options.columns) {
    auto [narrow, left_out] = fitted(options.columns);
    TerminalOptions as_it_is = options;
    as_it_is.fit = false;
    std::string text = narrow.text(as_it_is);
    if (left_out.empty()) return text;
    const std::string note = fmt::format("not shown at this width: {}", fmt::join(left_out, ", "));
    return text + paint(wrap_lines(note, options.columns), Colour::kDim, options);
  }
  std::string rule = repeat("─", total) + "\n";

  auto line = [&](const std::vector<std::string>& cells) {
    std::string text;
    for (size_t i = 0; i < cells.size(); ++i) {
      std::string pad(static_cast<size_t>(width[i] - display_width(cells[i])), ' ');
      text += columns_[i].align == Align::kRight ? pad + cells[i] : cells[i] + pad;
      text += std::string(kGap, ' ');
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  };

  std::vector<std::string> headers;
  for (const Column& column : columns_) headers.push_back(column.header);
  std::string text = paint(line(headers), Colour::kBold, options) + "\n";
  if (!options.colour) text += rule;
  for (const std::vector<std::string>& row : rows_) text += row.empty() ? rule : line(row) + "\n";
  return text;
}

std::string Table::markdown() const {
  std::string text = "|";
  for (const Column& column : columns_) text += fmt::format(" {} |", markdown_cell(column.header));
  text += "\n|";
  for (const Column& column : columns_)
    text += column.align == Align::kRight ? " ---: |" : " --- |";
  text += "\n";
  for (const std::vector<std::string>& row : rows_) {
    if (row.empty()) continue;
    text += "|";
    for (const std::string& cell : row) text += fmt::format(" {} |", markdown_cell(cell));
    text += "\n";
  }
  return text;
}

Progress::Progress(std::string label,
                   int64_t total,
                   std::string unit,
                   const TerminalOptions& options,
                   std::FILE* out,
                   Clock clock)
    : label_(std::move(label)),
      total_(total),
      unit_(std::move(unit)),
      options_(options),
      out_(out),
      clock_(std::move(clock)) {
  if (!clock_)
    clock_ = [] {
      return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch());
    };
  start_ = clock_();
}

std::string Progress::line(std::chrono::nanoseconds elapsed, std::string_view note) const {
  double seconds = std::chrono::duration<double>(elapsed).count();
  double per_second = seconds > 0 ? static_cast<double>(done_) / seconds : 0;
  std::string text = "  " + format_integer(done_);
  if (total_ > 0) text += "/" + format_integer(total_);
  text += fmt::format(" {}  {} {}/s", unit_, format_count(per_second), unit_);
  if (unit_.empty()) text.clear();
  if (per_second > 0 && done_ < total_)
    text +=
        fmt::format("  {} left", format_ns(static_cast<double>(total_ - done_) / per_second * 1e9));
  if (!note.empty()) text += "  " + terminal_safe(note, kLongestMessage);
  if (total_ > 0) {  // the bar takes what columns the rest leaves
    const double share = std::min(static_cast<double>(done_) / static_cast<double>(total_), 1.0);
    const std::string percent = fmt::format(" {:3.0f}%", share * 100);
    const int left = options_.columns - 3 - display_width(label_ + percent + text);
    const int wished = std::clamp(options_.columns / 5, 8, 24);
    text = "  " + text_bar(share, std::clamp(left, 4, wished)) + percent + text;
  }
  return std::string(cut(label_ + text, options_.columns - 1));
}

void Progress::tick(int64_t count, std::string_view note) {
  done_ += count;
  if (!options_.progress) return;
  std::chrono::nanoseconds elapsed = clock_() - start_;
  if (elapsed < kAppearsAfter) return;
  if (drawn_width_ > 0 && elapsed - drawn_at_ < kRedrawsEvery) return;
  std::string text = line(elapsed, note);
  int width = display_width(text);
  // Spaces erase the rest of the previous line. Carriage return is the only control character
  // needed.
  fmt::print(out_, "\r{}{:{}}", text, "", std::max(drawn_width_ - width, 0));
  std::fflush(out_);
  drawn_width_ = width;
  drawn_at_ = elapsed;
}

void Progress::hide() {
  if (drawn_width_ == 0) return;
  fmt::print(out_, "\r{:{}}\r", "", drawn_width_);
  std::fflush(out_);
  drawn_width_ = 0;
}

}  // namespace ridge::report
