// SPDX-License-Identifier: Apache-2.0
// Draws panels of lines with straight SVG.
#include "report/line_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "report/svg.h"

namespace ridge::report {
namespace {

using files::JsonField;

// Pixels.
constexpr double kWidth = 720, kLeft = 76, kRight = 16, kPlot = 290, kBelow = 50, kFirstLine = 16;
constexpr double kLineHeight = 18, kLegendWidth = 208;
constexpr size_t kMostLines = 12, kMostPoints = 2000, kLongestTitle = 96;
constexpr double kInfinite = std::numeric_limits<double>::infinity();

struct Mark {
  double x = 0, value = 0;
};

// The values of one form; those that were measured and those that were predicted or counted.
struct Line {
  std::string name;
  std::vector<Mark> measured, predicted;
};

// One quantity over the size.
struct Panel {
  std::string quantity;  // the name of its axis
  std::function<std::string(double)> text;
  std::vector<Line> lines;
  bool is_bytes = false;  // its axis has ticks at powers of two
};

// Ten ticks or so at powers of two, or those of a decimal axis.
void each_tick(const Panel& panel, const LogAxis& axis, const std::function<void(double)>& draw) {
  if (!panel.is_bytes) return axis.each_tick(draw);
  const double bits = std::log2(axis.high / axis.low);
  double step = 1;
  for (const double each : {2.0, 5.0, 10.0})
    if (bits / step > 9) step = each;
  for (double power = step * std::ceil(std::log2(axis.low) / step); std::exp2(power) <= axis.high;
       power += step)
    draw(std::exp2(power));
}

std::string form_of(const JsonField& point) {
  const std::string form = point.text_or("form", ""), phase = point.text_or("phase", "");
  return form.empty() || phase.empty() ? form + phase : form + ", " + phase;
}

// A panel of the values under `measured` and `predicted`; the second may be empty.
Panel panel_of(const JsonField& result,
               const std::string& letter,
               const char* measured,
               const char* predicted) {
  Panel panel;
  size_t points = 0;
  for (const JsonField& point : result.at("cases").items()) {
    if (!point.at("shape").object().contains(letter) || points >= kMostPoints) continue;
    ++points;
    const auto size = static_cast<double>(point.at("shape").at(letter).integer(1));
    const std::string name = form_of(point);
    auto line = std::ranges::find(panel.lines, name, &Line::name);
    if (line == panel.lines.end()) {
      if (panel.lines.size() == kMostLines) continue;
      panel.lines.push_back({name, {}, {}});
      line = std::prev(panel.lines.end());
    }
    if (const double value = point.real_or(measured, 0); value > 0)
      line->measured.push_back({size, value});
    if (const double value = *predicted == 0 ? 0 : point.real_or(predicted, 0); value > 0)
      line->predicted.push_back({size, value});
  }
  return panel;
}

std::string frame(const LogAxis& x, const LogAxis& y, const Panel& panel) {
  std::string out;
  each_tick(panel, y, [&](double value) {
    out += svg_grid_line(x.from, x.to, y.at(value), panel.text(value));
  });
  return out +
         fmt::format(
             "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#888\"/>\n"
             "<text transform=\"translate(12,{}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
             x.from, y.to, x.to - x.from, y.from - y.to, (y.from + y.to) / 2, panel.quantity);
}

// The sizes that occur, as far as they have room, and what they are.
std::string size_axis(std::vector<double> sizes,
                      const LogAxis& x,
                      double bottom,
                      const std::string& name) {
  std::sort(sizes.begin(), sizes.end());
  std::string out;
  double last = -kInfinite;
  for (const double size : sizes) {
    constexpr double kRoom = 52;
    if (x.at(size) - last < kRoom) continue;
    last = x.at(size);
    out += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", last,
                       bottom + 18, format_integer(std::llround(size)));
  }
  return out + fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                           (kLeft + kWidth - kRight) / 2, bottom + 38,
                           svg_text(name, kLongestTitle));
}

std::string polyline(const std::vector<Mark>& marks,
                     const LogAxis& x,
                     const LogAxis& y,
                     const char* colour,
                     bool is_measured) {
  std::string at, circles;
  for (const Mark& mark : marks) {
    at += fmt::format("{}{:.1f},{:.1f}", at.empty() ? "" : " ", x.at(mark.x), y.at(mark.value));
    if (is_measured)
      circles += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>",
                             x.at(mark.x), y.at(mark.value), colour);
  }
  return fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\"{}/>{}\n", at, colour,
                     is_measured ? " stroke-width=\"2\"" : " stroke-dasharray=\"5 4\"", circles);
}

// How many times the first line's value another one's is, below its points.
std::string ratios(const Panel& panel, const LogAxis& x, const LogAxis& y) {
  std::string out;
  for (size_t i = 1; i < panel.lines.size(); ++i) {
    const Line &first = panel.lines[0], &line = panel.lines[i];
    const bool is_measured = !line.measured.empty() && !first.measured.empty();
    std::map<double, double> base;
    for (const Mark& mark : is_measured ? first.measured : first.predicted)
      base[mark.x] = mark.value;
    // Where lines are many, those of the last one alone have room.
    if (i + 1 < panel.lines.size()) continue;
    for (const Mark& mark : is_measured ? line.measured : line.predicted)
      if (base.contains(mark.x) && mark.value > 0)
        out += fmt::format(
            "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" font-size=\"10\">{:.1f}x</text>\n",
            x.at(mark.x), y.at(mark.value) + 15, base[mark.x] / mark.value);
  }
  return out;
}

// The colours of the lines, three in a row, and below them the meaning of full and dashed lines.
std::string legend(const Panel& panel, double top) {
  std::string out;
  bool is_any_measured = false, is_any_predicted = false;
  for (size_t i = 0; i < panel.lines.size(); ++i) {
    const Line& line = panel.lines[i];
    is_any_measured |= !line.measured.empty();
    is_any_predicted |= !line.predicted.empty();
    const double at = kLeft + kLegendWidth * static_cast<double>(i % 3),
                 down = top + kLineHeight * static_cast<double>(i / 3);
    out += svg_legend(at, down, kSvgColours.at(i % kSvgColours.size()),
                      svg_text(line.name.empty() ? "a run" : line.name, 30));
  }
  const double down = top + kLineHeight * std::ceil(static_cast<double>(panel.lines.size()) / 3);
  double at = kLeft;
  for (const auto& [is_there, dashes, text] :
       {std::tuple{is_any_measured, "", "measured"},
        std::tuple{is_any_predicted, " stroke-dasharray=\"5 4\"", "predicted"}}) {
    if (!is_there) continue;
    out += fmt::format(
        "<line x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\" stroke=\"#333\" stroke-width=\"2\"{}/>"
        "<text x=\"{}\" y=\"{}\">{}</text>\n",
        at, at + 26, down - 4, down - 4, dashes, at + 32, down, text);
    at += kLegendWidth;
  }
  return out;
}

// `below` is how far the axis goes on below the least value.
LogAxis axis_of(const Panel& panel, double bottom, double top, double below) {
  double least = kInfinite, most = 0;
  for (const Line& line : panel.lines)
    for (const std::vector<Mark>* marks : {&line.measured, &line.predicted})
      for (const Mark& mark : *marks) {
        least = std::min(least, mark.value);
        most = std::max(most, mark.value);
      }
  if (!(least <= most)) throw usage_error("[chart] the folder has no point with a time");
  return {least / below, most * 1.3, bottom, top};
}

std::string bytes_text(double bytes) {
  return format_bytes(static_cast<int64_t>(std::min(bytes, 9e18)));
}

}  // namespace

std::string chart_title(const JsonField& bench) {
  const JsonField result = bench.at("result");
  std::string name = result.text_or(bench.at("kind").text(), "");
  for (const char* key : {"dtype", "device"})
    if (const std::string text = result.text_or(key, ""); !text.empty())
      name += (name.empty() ? "" : *key == 'd' && key[1] == 't' ? ", " : ": ") + text;
  return name;
}

std::string lines_chart(const JsonField& bench, const std::string& letter) {
  const JsonField result = bench.at("result");
  std::vector<Panel> panels = {panel_of(result, letter, "median_ns", "predicted_ns")};
  panels[0].quantity = "time of a run";
  panels[0].text = [](double ns) { return format_ns(ns); };
  const bool has_memory = result.has("attention");
  if (has_memory) {
    panels.push_back(panel_of(result, letter, "owned_bytes", ""));
    panels[1].quantity = "memory";
    panels[1].text = bytes_text;
    panels[1].is_bytes = true;
  }
  std::vector<double> sizes;
  for (const Panel& panel : panels)
    for (const Line& line : panel.lines)
      for (const std::vector<Mark>* marks : {&line.measured, &line.predicted})
        for (const Mark& mark : *marks) sizes.push_back(mark.x);
  if (sizes.empty()) throw usage_error("[chart] the folder has no point with a time");
  const auto [least, most] = std::ranges::minmax(sizes);
  const double rows = std::ceil(static_cast<double>(panels[0].lines.size()) / 3);
  const double top = kFirstLine + kLineHeight * (rows + 2) - 4;
  const double height = top + static_cast<double>(panels.size()) * (kPlot + 14) + kBelow - 14;
  const LogAxis x(least, most, kLeft + 20, kWidth - kRight - 20);
  LogAxis whole = x;
  whole.from = kLeft;
  whole.to = kWidth - kRight;
  std::string out = svg_begin(kWidth, height) +
                    fmt::format("<text x=\"{}\" y=\"{}\" font-weight=\"bold\">{}</text>\n", kLeft,
                                kFirstLine, svg_text(chart_title(bench), kLongestTitle)) +
                    legend(panels[0], kFirstLine + kLineHeight);
  double at = top;
  for (const Panel& panel : panels) {
    // The ratios below the points of the last line have room.
    const LogAxis y = axis_of(panel, at + kPlot, at, has_memory ? 2.5 : 1.3);
    out += frame(whole, y, panel);
    for (size_t i = 0; i < panel.lines.size(); ++i) {
      const char* colour = kSvgColours.at(i % kSvgColours.size());
      out += polyline(panel.lines[i].predicted, x, y, colour, false) +
             polyline(panel.lines[i].measured, x, y, colour, true);
    }
    if (has_memory) out += ratios(panel, x, y);
    at += kPlot + 14;
  }
  const std::string axis = result.text_or("axis", "");
  return out + size_axis(sizes, x, at - 14, axis.empty() ? letter : axis + " (" + letter + ")") +
         "</svg>\n";
}

}  // namespace ridge::report
