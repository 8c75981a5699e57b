// SPDX-License-Identifier: Apache-2.0
// Plots made of characters: bars and a log-log canvas with lines and lettered points, enough for a
// roofline in a terminal. Nothing here is specific to rooflines; the caller provides the lines, the
// points and the legend.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/terminal.h"

namespace ridge {
inline namespace base {

// A bar of `width` columns, of which share * width are filled, rounded to an eighth of a column.
// The share is clamped to [0, 1].
std::string text_bar(double share, int width);

// A logarithmic axis from `low` to `high`. Canvas throws a usage Error unless 0 < low < high.
struct LogAxis {
  double low = 1;
  double high = 10;
  std::string title;  // "FLOP/s", "FLOP/byte"
};

class Canvas {
 public:
  // The size of the plot in characters, without axes and titles. Smaller sizes are raised to 8 x 4.
  Canvas(int width, int height, LogAxis x, LogAxis y);

  // Draws a straight line in the logarithmic plane, as y = c and y = c x are. Clipped at the edges.
  void line(double x0, double y0, double x1, double y1);
  // Writes a label at the free place nearest to (x, y), where its first character should be: no
  // point and no other label is there or directly beside it. Places without lines are preferred.
  // Writes nothing if the plot has no such place. Mark the points first.
  void label(double x, double y, std::string_view words);
  // Marks a point and returns its letter: a..z, then A..Z, then always '*'. A point off the plot is
  // marked at the nearest edge. If another letter is already there, it is marked in the nearest
  // free cell. Never covers a label.
  char point(double x, double y);

  // Returns the plot with ticks at powers of ten and the titles, ending in a newline. Points are
  // bold if colour is on.
  std::string str(const TerminalOptions& options = {}) const;

 private:
  struct Cell {
    unsigned dots = 0;      // a Braille pattern, 2 x 4 dots
    std::string character;  // of a point or a label, written over the dots
    bool is_point = false;
    bool is_free() const { return character.empty(); }
  };
  // Cells with dots under a label of this width, and -1 if a point or another label is in its way.
  int lines_under(int row, int column, int width) const;
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
