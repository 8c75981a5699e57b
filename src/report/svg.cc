// SPDX-License-Identifier: Apache-2.0
// Escapes texts and places values on logarithmic axes.
#include "report/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/printable.h"

namespace ridge::report {

std::string svg_text(std::string_view text, size_t most) {
  std::string out, quoted = printable(text.substr(0, most), most);
  for (const char c : std::string_view(quoted).substr(1, quoted.size() - 2)) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else
      out += c;
  }
  return out;
}

std::string svg_begin(double width, double height) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"sans-serif\" font-size=\"12\" fill=\"#333\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n",
      width, height);
}

std::string svg_grid_line(double left, double right, double y, std::string_view label) {
  return fmt::format(
      "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/>"
      "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
      left, right, y, left - 6, y + 4, label);
}

std::string svg_legend(double left,
                       double baseline,
                       std::string_view colour,
                       std::string_view text) {
  return fmt::format(
      "<rect x=\"{}\" y=\"{}\" width=\"10\" height=\"10\" fill=\"{}\"/><text x=\"{}\" "
      "y=\"{}\">{}</text>\n",
      left, baseline - 9, colour, left + 16, baseline, text);
}

LogAxis::LogAxis(double least, double most, double from_pixel, double to_pixel)
    : low(least), high(most), from(from_pixel), to(to_pixel) {
  if (!(high > low * (1 + 1e-9))) {  // a single value lies in the middle
    low /= 2;
    high = 4 * low;
  }
}

double LogAxis::at(double value) const {
  return from + (std::log(value) - std::log(low)) / (std::log(high) - std::log(low)) * (to - from);
}

bool LogAxis::is_short() const { return high / 1000 < low; }

double LogAxis::tick_ratio() const {
  constexpr double kMostTicks = 10;
  return std::pow(10, std::max(1.0, std::ceil((std::log10(high) - std::log10(low)) / kMostTicks)));
}

double LogAxis::first_power() const { return std::pow(10, std::floor(std::log10(low) + 1e-9)); }

}  // namespace ridge::report
