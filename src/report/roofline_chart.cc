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
#include "report/svg.h"

namespace ridge::report {
namespace {

using files::JsonField;

// Pixels.
constexpr double kWidth = 720, kHeight = 420, kLeft = 76, kRight = 150, kTop = 12, kBottom = 44;
constexpr size_t kMostPoints = 60, kMostLabels = 24, kLongestLabel = 34;

class RooflineDrawing {
 public:
  RooflineDrawing(const std::vector<RoofLine>& roofs, const std::vector<RooflinePoint>& points)
      : roofs_(roofs), points_(points), x_(1, 10, 0, 1), y_(1, 10, 0, 1) {
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
    y_ = {low / 1.8, std::max(high, top) * 1.8, kHeight - kBottom, kTop};
    top_ = top;
  }

  std::string svg() const {
    std::string out = svg_begin(kWidth, kHeight) + frame();
    double last = -kInfinite;  // labels of flat roofs, from the top, are pushed apart
    std::vector<RoofLine> ordered = roofs_;
    std::stable_sort(ordered.begin(), ordered.end(),
                     [](const RoofLine& a, const RoofLine& b) { return a.per_s > b.per_s; });
    for (const RoofLine& roof : ordered) {
      if (roof.is_slanted) {
        out += slanted(roof);
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
    return out + marks() + "</svg>\n";
  }

 private:
  static constexpr double kInfinite = std::numeric_limits<double>::infinity();
  static constexpr const char* kDashes = " stroke-dasharray=\"5 4\"";

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
               "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#888\"/>\n"
               "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">FLOPs per planned byte</text>\n",
               x_.from, y_.to, x_.to - x_.from, y_.from - y_.to, (x_.from + x_.to) / 2,
               kHeight - 8);
  }

  std::string slanted(const RoofLine& roof) const {
    const double from = std::max(x_.low, y_.low / roof.per_s),
                 to = std::min(x_.high, top_ / roof.per_s);
    if (!(from < to)) return "";
    const double x1 = x_.at(from), x2 = x_.at(to), y1 = y_.at(from * roof.per_s),
                 y2 = y_.at(to * roof.per_s);
    const double angle = std::atan2(y2 - y1, x2 - x1) * 180 / std::acos(-1.0);
    const double along = roof.is_sheet ? 0.55 : 0.08;
    const double at = x1 + along * (x2 - x1), down = y1 + along * (y2 - y1) - 4;
    return fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{2:.1f}\" y2=\"{3:.1f}\" stroke=\"#333\"{4}/>"
        "<text x=\"{5:.1f}\" y=\"{6:.1f}\" font-size=\"10\" transform=\"rotate({7:.1f} {5:.1f} {6:.1f})\">{8} {9}</text>\n",
        x1, y1, x2, y2, roof.is_sheet ? kDashes : "", at, down, angle, svg_text(roof.name),
        format_rate(roof.per_s, "B/s"));
  }

  std::string marks() const {
    std::string out;
    std::vector<std::pair<double, double>> placed;
    for (size_t i = 0; i < points_.size() && i < kMostPoints; ++i) {
      const RooflinePoint& point = points_[i];
      const double x = x_.at(point.intensity), y = y_.at(point.rate);
      const char* colour = kSvgColours.at(i % kSvgColours.size());
      out += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4.5\" fill=\"{}\" stroke=\"{}\" stroke-width=\"1.5\"/>\n",
          x, y, point.is_measured ? colour : "#fff", colour);
      // A label is left out where another one stands.
      const bool is_free = std::none_of(placed.begin(), placed.end(), [&](const auto& other) {
        constexpr double kTall = 11, kWide = 130;
        return std::abs(other.second - y) < kTall && std::abs(other.first - x) < kWide;
      });
      if (!is_free || placed.size() == kMostLabels) continue;
      placed.emplace_back(x, y);
      const bool is_right = x > (x_.from + x_.to) / 2;
      out += fmt::format(
          "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"10\" stroke=\"#fff\" stroke-width=\"3\" paint-order=\"stroke\"{}>{}</text>\n",
          is_right ? x - 8 : x + 8, y + 13, is_right ? " text-anchor=\"end\"" : "",
          svg_text(point.name, kLongestLabel));
    }
    return out;
  }

  const std::vector<RoofLine>& roofs_;
  const std::vector<RooflinePoint>& points_;
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
  if (document.contains("bench")) {
    const JsonField result = JsonField(document["bench"], "bench.json").at("result");
    if (result.has("cases")) points = bench_points(result);
  }
  // The last run that was reported in detail.
  for (const JsonField& run : JsonField(document, "performance_summary.json").at("runs").items())
    if (run.has("operations")) points = run_points(run);
  if (points.empty())
    throw usage_error("[roofline] the folder has no point with FLOPs, bytes and a time: {}",
                      printable(folder.name));
  const std::vector<RoofLine> roofs = roof_lines(root.at("roofs"), points);
  return RooflineDrawing(roofs, points).svg();
}

}  // namespace ridge::report
