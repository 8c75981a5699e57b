// SPDX-License-Identifier: Apache-2.0
// Draws bars with eighth-block characters and lines with Braille dots.
#include "base/canvas.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/units.h"

namespace ridge {
inline namespace base {
namespace {

constexpr int kDotsAcross = 2;  // a Braille character is 2 x 4 dots
constexpr int kDotsDown = 4;
constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

// The UTF-8 form of a Braille pattern, U+2800 + dots.
std::string braille(unsigned dots) {
  return {'\xE2', static_cast<char>(0xA0u | (dots >> 6)),
          static_cast<char>(0x80u | (dots & 0x3Fu))};
}

// Position of the value on the axis: 0 at low, 1 at high. Requires value > 0.
double position(const LogAxis& axis, double value) {
  return std::log(value / axis.low) / std::log(axis.high / axis.low);
}

double on_axis(const LogAxis& axis, double value) {
  return std::isnan(value) ? axis.low : std::clamp(value, axis.low, axis.high);
}

// The powers of ten on the axis. If there is at most one, also their multiples by 2 and 5.
std::vector<double> ticks(const LogAxis& axis) {
  constexpr double kSlack = 1e-9;  // an end that is a power of ten is a tick
  std::vector<double> powers;
  std::vector<double> all;
  int first = static_cast<int>(std::floor(std::log10(axis.low)));
  int last = static_cast<int>(std::ceil(std::log10(axis.high)));
  for (int exponent = first; exponent <= last; ++exponent) {
    for (double digit : {1.0, 2.0, 5.0}) {
      double value = digit * std::pow(10.0, exponent);
      if (value < axis.low * (1 - kSlack) || value > axis.high * (1 + kSlack)) continue;
      if (digit == 1.0) powers.push_back(value);
      all.push_back(value);
    }
  }
  return powers.size() > 1 ? powers : all;
}

// Formats a round number without format_count's decimals: "100 G".
std::string tick_label(double value) {
  if (value < 0.999) return fmt::format("{:g}", value);
  std::string text = format_count(value);
  size_t dot = text.find('.');
  if (dot == std::string::npos) return text;
  size_t end = std::min(text.find(' '), text.size());
  return text.substr(0, dot) + text.substr(end);
}

// Index of the dot or cell that contains a coordinate. A border (within rounding) belongs to the
// dot after it, and the last border to the last dot. Beyond the borders the result is outside
// [0, size).
int index_of(double coordinate, int size) {
  constexpr double kSlack = 1e-6;
  auto index = static_cast<int>(std::floor(coordinate + kSlack));
  return index == size && coordinate <= size + kSlack ? size - 1 : index;
}

int cell_of(double coordinate, int size) {
  return std::clamp(index_of(coordinate, size), 0, size - 1);
}

}  // namespace

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

Canvas::Canvas(int width, int height, LogAxis x, LogAxis y)
    : width_(std::max(width, 8)), height_(std::max(height, 4)), x_(std::move(x)), y_(std::move(y)) {
  for (const LogAxis& axis : {x_, y_})
    if (!(axis.low > 0 && axis.low < axis.high && std::isfinite(axis.high)))
      throw usage_error("[canvas] expected an axis with 0 < low < high, got {} to {} {}", axis.low,
                        axis.high, axis.title);
  cells_.resize(static_cast<size_t>(width_) * static_cast<size_t>(height_));
}

double Canvas::column_of(double x) const { return position(x_, x) * width_; }
double Canvas::row_of(double y) const { return (1 - position(y_, y)) * height_; }

void Canvas::line(double x0, double y0, double x1, double y1) {
  for (double end : {x0, y0, x1, y1})
    if (!(end > 0 && std::isfinite(end))) return;
  // Coordinates are in dots. Each column of dots is set in the row that the line crosses there, and
  // each row in the column, so that neither steep nor flat lines have gaps. The work is bounded by
  // the canvas size, wherever the end points are.
  double left = column_of(x0) * kDotsAcross, top = row_of(y0) * kDotsDown;
  double right = column_of(x1) * kDotsAcross, bottom = row_of(y1) * kDotsDown;
  int columns = width_ * kDotsAcross, rows = height_ * kDotsDown;
  auto dot = [&](double column, double row) {
    int c = index_of(column, columns), r = index_of(row, rows);
    if (c < 0 || c >= columns || r < 0 || r >= rows) return;
    constexpr unsigned kBit[kDotsAcross][kDotsDown] = {{0x01, 0x02, 0x04, 0x40},
                                                       {0x08, 0x10, 0x20, 0x80}};
    at(r / kDotsDown, c / kDotsAcross).dots |= kBit[c % kDotsAcross][r % kDotsDown];
  };
  for (int column = 0; column < columns; ++column) {
    double middle = column + 0.5;
    if (middle < std::min(left, right) || middle > std::max(left, right)) continue;
    dot(middle, top + (bottom - top) * (middle - left) / (right - left));
  }
  for (int row = 0; row < rows; ++row) {
    double middle = row + 0.5;
    if (middle < std::min(top, bottom) || middle > std::max(top, bottom)) continue;
    dot(left + (right - left) * (middle - top) / (bottom - top), middle);
  }
}

int Canvas::lines_under(int row, int column, int width) const {
  int lines = 0;
  for (int c = std::max(column - 1, 0); c < std::min(column + width + 1, width_); ++c) {
    if (!at(row, c).is_free()) return -1;
    lines += c >= column && c < column + width && at(row, c).dots != 0;
  }
  return lines;
}

void Canvas::label(double x, double y, std::string_view words) {
  constexpr double kLineCost = 16;  // a line under a character is as bad as 4 columns of distance
  const int width = display_width(words);
  const double column = cell_of(column_of(on_axis(x_, x)), width_);
  const double row = cell_of(row_of(on_axis(y_, y)), height_);
  Cell* place = nullptr;
  double least = 0;
  for (int r = 0; r < height_; ++r) {
    for (int c = 0; c + width <= width_; ++c) {
      const int lines = lines_under(r, c, width);
      const double across = column - c, down = 2.0 * (row - r);
      const double cost = across * across + down * down + kLineCost * lines;
      if (lines < 0 || (place != nullptr && cost >= least)) continue;
      place = &at(r, c);
      least = cost;
    }
  }
  for (; place != nullptr && !words.empty(); ++place) {
    size_t length = 1;
    while (length < words.size() && (static_cast<unsigned char>(words[length]) & 0xC0u) == 0x80u)
      ++length;
    place->character = words.substr(0, length);
    words.remove_prefix(length);
  }
}

char Canvas::point(double x, double y) {
  char letter =
      points_ < static_cast<int>(kLetters.size()) ? kLetters[static_cast<size_t>(points_)] : '*';
  ++points_;
  double column = column_of(on_axis(x_, x)), row = row_of(on_axis(y_, y));
  Cell* nearest = nullptr;
  double nearest_distance = 0;
  for (int r = 0; r < height_; ++r) {
    for (int c = 0; c < width_; ++c) {
      // A character is about twice as high as wide. Points on an edge count as inside the outermost
      // cell.
      double across = cell_of(column, width_) - c, down = 2.0 * (cell_of(row, height_) - r);
      double distance = across * across + down * down;
      if (!at(r, c).is_free() || (nearest != nullptr && distance > nearest_distance)) continue;
      nearest = &at(r, c);
      nearest_distance = distance;
    }
  }
  if (nearest != nullptr) {
    nearest->character = letter;
    nearest->is_point = true;
  }
  return letter;
}

std::string Canvas::str(const TerminalOptions& options) const {
  std::vector<std::string> labels(static_cast<size_t>(height_));
  for (double tick : ticks(y_))
    labels[static_cast<size_t>(cell_of(row_of(tick), height_))] = tick_label(tick);
  int margin = 0;
  for (const std::string& label : labels) margin = std::max(margin, display_width(label));

  std::string plot = fmt::format("{:{}} {}\n", "", margin, y_.title);
  for (int row = 0; row < height_; ++row) {
    const std::string& label = labels[static_cast<size_t>(row)];
    std::string line = fmt::format("{:>{}} {}", label, margin, label.empty() ? "│" : "┤");
    for (int column = 0; column < width_; ++column) {
      const Cell& cell = at(row, column);
      if (cell.is_point)
        line += paint(cell.character, Colour::kBold, options);
      else if (!cell.is_free())
        line += cell.character;
      else
        line += cell.dots == 0 ? " " : braille(cell.dots);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    plot += line + "\n";
  }

  std::vector<bool> is_tick(static_cast<size_t>(width_));
  // Each tick label is centred under its tick, or left out if it would touch the previous one.
  std::string under;
  for (double tick : ticks(x_)) {
    int column = cell_of(column_of(tick), width_);
    is_tick[static_cast<size_t>(column)] = true;
    std::string label = tick_label(tick);
    int begin = std::max(margin + 2 + column - static_cast<int>(label.size()) / 2, 0);
    if (!under.empty() && begin <= static_cast<int>(under.size())) continue;
    under += std::string(static_cast<size_t>(begin) - under.size(), ' ') + label;
  }
  plot += fmt::format("{:{}} └", "", margin);
  for (bool tick : is_tick) plot += tick ? "┬" : "─";
  // The title is at the right end of the axis.
  const int room = std::max(margin + 2 + width_ - display_width(x_.title), 0);
  return plot + "\n" + under + "\n" + std::string(static_cast<size_t>(room), ' ') + x_.title + "\n";
}

}  // namespace base
}  // namespace ridge
