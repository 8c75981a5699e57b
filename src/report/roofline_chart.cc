// SPDX-License-Identifier: Apache-2.0
// Draws a roofline with straight SVG: slanted bandwidths, flat rates of arithmetic, and points.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/units.h"
#include "files/json_field.h"
#include "report/bench_chart.h"
#include "report/chart_model.h"
#include "report/line_chart.h"
#include "report/svg.h"

namespace ridge::report {
namespace {

using files::JsonField;

// Pixels.
constexpr double kWidth = 720, kPlot = 364, kLeft = 90, kRight = 176, kTop = 44, kBottom = 44;
constexpr double kEntryHeight = 14;
constexpr size_t kMostPoints = 60, kColumns = 3, kLongestName = 38, kLongestTitle = 96;

class RooflineDrawing {
 public:
  // `bytes` names the bytes of the points' intensities.
  RooflineDrawing(const std::vector<RoofLine>& roofs,
                  const std::vector<RooflinePoint>& points,
                  const std::string& bytes)
      : roofs_(roofs),
        bytes_(bytes),
        points_(points.begin(),
                points.begin() + static_cast<std::ptrdiff_t>(std::min(points.size(), kMostPoints))),
        x_(1, 10, 0, 1),
        y_(1, 10, 0, 1) {
    double top = 0, slowest = kInfinite, left = kInfinite, right = 0, low = kInfinite, high = 0;
    for (const RoofLine& roof : roofs) {
      if (roof.is_slanted) {
        slowest = std::min(slowest, roof.per_s);
        fastest_ = std::max(fastest_, roof.per_s);
      } else {
        top = std::max(top, roof.per_s);
        low = std::min(low, roof.per_s);
      }
    }
    if (!(top > 0) || slowest == kInfinite)
      throw usage_error("[roofline] the folder has no bandwidth and no rate of arithmetic");
    for (const RooflinePoint& point : points) {
      left = std::min(left, point.intensity);
      right = std::max(right, point.intensity);
      low = std::min(low, point.rate);
      high = std::max(high, point.rate);
    }
    right = std::max(right, top / slowest);
    left = std::min(left, top / slowest / 10);
    x_ = {left / 1.6, right * 1.8, kLeft, kWidth - kRight};
    y_ = {low / 1.8, std::max(high, top) * 1.8, kTop + kPlot, kTop};
    top_ = top;
  }

  std::string svg(const std::string& title) const {
    const double rows =
        std::ceil(static_cast<double>(points_.size()) / static_cast<double>(kColumns));
    std::string out = svg_begin(kWidth, kTop + kPlot + kBottom + kEntryHeight * rows + 10) +
                      fmt::format("<text x=\"8\" y=\"16\" font-weight=\"bold\">{}</text>\n",
                                  svg_text(title, kLongestTitle)) +
                      meanings() + frame();
    double last = -kInfinite;  // labels of flat roofs, from the top, are pushed apart
    std::vector<RoofLine> ordered = roofs_;
    std::stable_sort(ordered.begin(), ordered.end(),
                     [](const RoofLine& a, const RoofLine& b) { return a.per_s > b.per_s; });
    std::vector<std::string> bandwidths;
    for (const RoofLine& roof : ordered) {
      if (roof.is_slanted) {
        const std::string line = slanted(roof);
        if (!line.empty())
          bandwidths.push_back(
              fmt::format("{} {}", svg_text(roof.name), format_rate(roof.per_s, "B/s")));
        out += line;
        continue;
      }
      const double from = std::max(x_.low, roof.per_s / fastest_);
      out += fmt::format(
          "<line x1=\"{0:.1f}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#333\"{3}/>\n",
          x_.at(from), x_.to, y_.at(roof.per_s), roof.is_sheet ? kDashes : "");
      last = std::max(last + 13, y_.at(roof.per_s));
      out += fmt::format("<text x=\"{}\" y=\"{:.1f}\" font-size=\"10\">{} {}</text>\n", x_.to + 4,
                         last + 3, svg_text(roof.name), format_rate(roof.per_s, "FLOP/s"));
    }
    return out + bandwidth_list(bandwidths, last) + marks() + names() + "</svg>\n";
  }

 private:
  static constexpr double kInfinite = std::numeric_limits<double>::infinity();
  static constexpr const char* kDashes = " stroke-dasharray=\"5 4\"";

  // Says which roofs and points are measured, predicted or of a data sheet.
  std::string meanings() const {
    auto is_sheet = [](const RoofLine& roof) { return roof.is_sheet; };
    auto is_measured = [](const RooflinePoint& point) { return point.is_measured; };
    std::string text;
    auto add = [&](bool is_there, const char* meaning) {
      if (is_there) text += (text.empty() ? "" : "; ") + std::string(meaning);
    };
    add(std::ranges::any_of(roofs_, is_sheet), "dashed roofs: data sheet");
    add(std::ranges::any_of(points_, is_measured), "full points: measured");
    add(!std::ranges::all_of(points_, is_measured), "hollow points: predicted");
    return fmt::format("<text x=\"8\" y=\"34\" font-size=\"10\">{}</text>\n", text);
  }

  std::string frame() const {
    std::string out;
    x_.each_tick([&](double value) {
      out += fmt::format(
          "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\" stroke=\"#eee\"/>"
          "<text x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\">{4:g}</text>\n",
          x_.at(value), y_.from, y_.to, y_.from + 16, value);
    });
    y_.each_tick([&](double value) {
      out += fmt::format(
          "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#eee\"/>"
          "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\" font-size=\"10\">{5}</text>\n",
          x_.from, x_.to, y_.at(value), x_.from - 4, y_.at(value) + 4,
          format_rate(value, "FLOP/s"));
    });
    return out +
           fmt::format(
               "<rect x=\"{0}\" y=\"{1}\" width=\"{2}\" height=\"{3}\" fill=\"none\" stroke=\"#888\"/>\n"
               "<text x=\"{4}\" y=\"{5}\" text-anchor=\"middle\">FLOPs per {7} byte</text>\n"
               "<text transform=\"translate(12,{6}) rotate(-90)\" text-anchor=\"middle\">rate</text>\n",
               x_.from, y_.to, x_.to - x_.from, y_.from - y_.to, (x_.from + x_.to) / 2,
               y_.from + 36, (y_.from + y_.to) / 2, svg_text(bytes_));
  }

  // The slanted roofs in their order from the left, at the right of the picture: along the lines,
  // names would meet each other and the points.
  std::string bandwidth_list(const std::vector<std::string>& names, double last_flat) const {
    if (names.empty()) return "";
    double y = std::max(last_flat + 30, kTop + kPlot / 2);
    auto line = [&](const std::string& text) {
      y += 13;
      return fmt::format("<text x=\"{}\" y=\"{:.1f}\" font-size=\"10\">{}</text>\n", x_.to + 4,
                         y - 13, text);
    };
    std::string out = line(names.size() == 1 ? "slanted:" : "slanted, from the left:");
    for (const std::string& name : names) out += line(name);
    return out;
  }

  std::string slanted(const RoofLine& roof) const {
    const double from = std::max(x_.low, y_.low / roof.per_s),
                 to = std::min(x_.high, top_ / roof.per_s);
    if (!(from < to)) return "";
    const double x1 = x_.at(from), x2 = x_.at(to), y1 = y_.at(from * roof.per_s),
                 y2 = y_.at(to * roof.per_s);
    return fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#333\"{}/>\n", x1,
        y1, x2, y2, roof.is_sheet ? kDashes : "");
  }

  static const char* colour(size_t point) { return kSvgColours.at(point % kSvgColours.size()); }

  // Points with their numbers. A number is left out where no side of its point is free.
  std::string marks() const {
    struct Box {
      double x, y;  // the middle
    };
    constexpr double kWide = 13, kTall = 11;
    std::string out;
    std::vector<Box> taken;
    for (size_t i = 0; i < points_.size(); ++i) {
      const Box at{x_.at(points_[i].intensity), y_.at(points_[i].rate)};
      taken.push_back(at);
      out += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4.5\" fill=\"{}\" stroke=\"{}\" stroke-width=\"1.5\"/>\n",
          at.x, at.y, points_[i].is_measured ? colour(i) : "#fff", colour(i));
    }
    for (size_t i = 0; i < points_.size(); ++i) {
      const Box at = taken[i];
      for (const Box& each : {Box{at.x + 12, at.y}, Box{at.x, at.y + 12}, Box{at.x, at.y - 12},
                              Box{at.x - 12, at.y}}) {
        if (std::ranges::any_of(taken, [&](const Box& other) {
              return std::abs(other.x - each.x) < kWide - 2 && std::abs(other.y - each.y) < kTall;
            }))
          continue;
        taken.push_back(each);
        out += fmt::format(
            "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"10\" text-anchor=\"middle\" stroke=\"#fff\" stroke-width=\"3\" paint-order=\"stroke\">{}</text>\n",
            each.x, each.y + 4, i + 1);
        break;
      }
    }
    return out;
  }

  // Below the picture, by the points' numbers.
  std::string names() const {
    const size_t rows = (points_.size() + kColumns - 1) / kColumns;
    constexpr double kColumn = (kWidth - 16) / static_cast<double>(kColumns);
    std::string out;
    for (size_t i = 0; i < points_.size(); ++i) {
      const double x = 8 + kColumn * static_cast<double>(i / rows),
                   y = kTop + kPlot + kBottom + 10 + kEntryHeight * static_cast<double>(i % rows);
      out += fmt::format(
          "<rect x=\"{}\" y=\"{}\" width=\"8\" height=\"8\" fill=\"{}\"/><text x=\"{}\" y=\"{}\" font-size=\"10\">{} {}</text>\n",
          x, y - 8, colour(i), x + 12, y, i + 1, svg_text(points_[i].name, kLongestName));
    }
    return out;
  }

  const std::vector<RoofLine>& roofs_;
  std::string bytes_;
  std::vector<RooflinePoint> points_;  // as many as have room
  LogAxis x_, y_;
  double top_ = 0, fastest_ = 0;
};

}  // namespace

std::string roofline_chart(const RunFolder& folder) {
  const nlohmann::json document = folder_document(folder);
  const JsonField root(document, folder.name);
  if (!root.has("roofs"))
    throw usage_error("[roofline] the folder has no ceilings: {}", printable(folder.name));
  std::vector<RooflinePoint> points;
  std::string title, bytes = "planned";
  if (document.contains("bench")) {
    const JsonField result = JsonField(document["bench"], "bench.json").at("result");
    if (result.has("cases")) points = bench_points(result);
    if (const std::string other = result.text_or("byte_convention", "ridge"); other != "ridge")
      bytes = other;
    title = chart_title(JsonField(document["bench"], "bench.json"));
  }
  // Without points of a bench, the last run that was reported in detail.
  const bool has_bench = !points.empty();
  for (const JsonField& run : JsonField(document, "performance_summary.json").at("runs").items())
    if (!has_bench && run.has("operations")) {
      points = run_points(run);
      title = run.text_or("text", "");
    }
  if (points.empty())
    throw usage_error("[roofline] the folder has no point with FLOPs, bytes and a time: {}",
                      printable(folder.name));
  const std::vector<RoofLine> roofs = roof_lines(root.at("roofs"), points);
  return RooflineDrawing(roofs, points, bytes).svg(title);
}

}  // namespace ridge::report
