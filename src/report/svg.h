// SPDX-License-Identifier: Apache-2.0
// Colours, text that XML may hold, and axes of the pictures of ridge report (SVG).
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace ridge::report {

inline constexpr size_t kLongestSvgName = 40;
// Tableau's colours, which differ for most eyes.
inline constexpr std::array<const char*, 8> kSvgColours = {
    "#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#b07aa1", "#9c755f", "#79706e"};

// At most `most` characters, printable and escaped.
std::string svg_text(std::string_view text, size_t most = kLongestSvgName);
// The beginning of a picture with a white ground; "</svg>\n" ends it.
std::string svg_begin(double width, double height);
// A line across a plot with its label on the left.
std::string svg_grid_line(double left, double right, double y, std::string_view label);

// A square of a colour and what it stands for, on this baseline.
std::string svg_legend(double left,
                       double baseline,
                       std::string_view colour,
                       std::string_view text);

// The lines of a bar chart from the bottom of its plot to the top, each with label(i) on its left;
// the bottom is "0".
template <typename Label>
std::string svg_grid(double left,
                     double right,
                     double top,
                     double height,
                     int ticks,
                     const Label& label) {
  std::string out;
  for (int i = 0; i <= ticks; ++i)
    out += svg_grid_line(left, right, top + height - height * i / ticks, i == 0 ? "0" : label(i));
  return out;
}

// An axis with ticks at powers of ten, or at 1, 2 and 5 times them where there are few; values are
// above 0.
struct LogAxis {
  double low, high, from, to;  // values, and the pixels where they are

  // Covers values from `least` to `most`.
  LogAxis(double least, double most, double from_pixel, double to_pixel);
  double at(double value) const;
  bool is_short() const;  // less than three powers of ten
  // 1, 10, 100 (or wider apart) or 1, 2, 5, 10 between `low` and `high`.
  template <typename Draw>
  void each_tick(Draw draw) const {
    for (double power = first_power(); power <= high * (1 + 1e-9); power *= tick_ratio())
      for (const double factor : {1.0, 2.0, 5.0})
        if ((factor == 1 || is_short()) && power * factor >= low * (1 - 1e-9) &&
            power * factor <= high * (1 + 1e-9))
          draw(power * factor);
  }

 private:
  double first_power() const;
  double tick_ratio() const;  // from one power to the next, so that there are at most ten or so
};

}  // namespace ridge::report
