// SPDX-License-Identifier: Apache-2.0
// Plots out of characters: bars and a log-log canvas with lines and
// lettered points, enough for a roofline in a terminal. Knows nothing
// of rooflines: the caller brings the lines, the points and the legend.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/terminal.h"

namespace ridge {
inline namespace base {

// `width` columns, the first round(share * width, to an eighth) of them filled. A share outside [0,
// 1] is cut to it.
std::string text_bar(double share, int width);

// A logarithmic axis from `low` to `high` (0 < low < high, else a usage Error).
struct LogAxis {
  double low = 1;
  double high = 10;
  std::string title;  // "FLOP/s", "FLOP/byte"
};

class Canvas {
 public:
  // The plot's own size in characters, without axes and titles; at least 8 x 4.
  Canvas(int width, int height, LogAxis x, LogAxis y);

  // A straight line in the logarithmic plane, which
  // is how y = c and y = c x look. Cut at the edges.
  void line(double x0, double y0, double x1, double y1);
  // Writes over the plot, its first character at the point (x, y); what crosses the right edge is
  // moved to end there.
  void text(double x, double y, std::string_view words);
  // Marks a point and returns its letter: a..z, then A..Z, then always '*'. Off the plot it sits at
  // the nearest edge; where its place is taken by another letter it moves to the nearest free one.
  char point(double x, double y);

  // The plot with ticks at powers of ten and the titles; ends in a newline. Points are bold where
  // colour is on.
  std::string str(const TerminalOptions& options = {}) const;

 private:
  struct Cell {
    unsigned dots = 0;      // a Braille pattern, 2 x 4 dots
    std::string character;  // written over the dots
    bool is_point = false;
  };
  double column_of(double x) const;  // in cells from the left edge
  double row_of(double y) const;     // in cells from the top edge
  size_t index(int row, int column) const {
    return static_cast<size_t>(row) * static_cast<size_t>(width_) + static_cast<size_t>(column);
  }
  Cell& at(int row, int column) { return cells_[index(row, column)]; }
  const Cell& at(int row, int column) const { return cells_[index(row, column)]; }

  int width_;
  int height_;
  LogAxis x_;
  LogAxis y_;
  std::vector<Cell> cells_;
  int points_ = 0;
};

}  // namespace base
}  // namespace ridge
