// SPDX-License-Identifier: Apache-2.0
// Draws with straight SVG: a frame, ticks, a line of means and the validations as dots.
#include "report/bench_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/printable.h"
#include "base/units.h"
#include "files/mapped_file.h"
#include "report/svg.h"

namespace ridge::report {
namespace {

using Points = LossPoints;

constexpr const char* kLines = "metrics.jsonl";
// Pixels.
constexpr double kWidth = 720, kHeight = 400, kLeft = 56, kRight = 16, kTop = 36, kBottom = 44;

// A linear axis with ticks at 1, 2 or 5 times a power of ten.
struct Axis {
  double low, high, from, to;  // values, and the pixels where they are
  double tick = 1;

  Axis(double least, double most, int ticks, double from_pixel, double to_pixel)
      : low(least), high(most), from(from_pixel), to(to_pixel) {
    if (!(high > low)) high = low + std::max(1.0, std::abs(low));
    tick = std::pow(10, std::floor(std::log10((high - low) / ticks)));
    for (const double factor : {2.0, 2.5, 2.0})
      if ((high - low) / tick > ticks) tick *= factor;
    low = std::floor(low / tick) * tick;
  }
  double at(double value) const { return from + (value - low) / (high - low) * (to - from); }
};

std::string line(const Points& points, const Axis& x, const Axis& y, const char* style) {
  std::string at;
  for (const auto& [step, loss] : points)
    at += fmt::format("{}{:.1f},{:.1f}", at.empty() ? "" : " ", x.at(static_cast<double>(step)),
                      y.at(loss));
  return fmt::format("<polyline points=\"{}\" fill=\"none\" {}/>\n", at, style);
}

std::string frame(const Axis& x, const Axis& y) {
  std::string out;
  for (int64_t i = 0; y.low + static_cast<double>(i) * y.tick <= y.high * (1 + 1e-9); ++i) {
    const double value = y.low + static_cast<double>(i) * y.tick;
    out += svg_grid_line(x.from, x.to, y.at(value),
                         fmt::format("{:.4g}", std::abs(value) < y.tick / 2 ? 0 : value));
  }
  for (int64_t i = 0; x.low + static_cast<double>(i) * x.tick <= x.high * (1 + 1e-9); ++i) {
    const double value = x.low + static_cast<double>(i) * x.tick;
    out += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                       x.at(value), y.from + 18, format_integer(std::llround(value)));
  }
  return out +
         fmt::format(
             "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#888\"/>\n"
             "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">step</text>\n"
             "<text transform=\"translate(14,{}) rotate(-90)\" text-anchor=\"middle\">loss</text>\n",
             x.from, y.to, x.to - x.from, y.from - y.to, (x.from + x.to) / 2, kHeight - 8,
             (y.from + y.to) / 2);
}

std::string drawn(const LossCurve& curve, const Axis& x, const Axis& y, const char* colour) {
  std::string out;
  if (!curve.training.empty())
    out += line(mean_losses(curve.training), x, y,
                fmt::format("stroke=\"{}\" stroke-opacity=\"0.55\"", colour).c_str());
  if (curve.validation.empty()) return out;
  out +=
      line(curve.validation, x, y, fmt::format("stroke=\"{}\" stroke-width=\"2\"", colour).c_str());
  for (const auto& [step, loss] : curve.validation)
    out += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\"/>\n",
                       x.at(static_cast<double>(step)), y.at(loss), colour);
  return out;
}

// "my_run: training 3.21, validation 3.40": the last values.
std::string legend(const LossCurve& curve) {
  std::string out = svg_text(curve.name) + ":";
  if (!curve.training.empty())
    out += fmt::format(" training {:.3f}", mean_losses(curve.training).back().second);
  if (!curve.validation.empty())
    out += fmt::format("{} validation {:.3f} (dots)", curve.training.empty() ? "" : ",",
                       curve.validation.back().second);
  return out;
}

}  // namespace

LossCurve read_loss_curve(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kLines;
  LossCurve curve;
  curve.name = (folder / "").parent_path().filename().string();
  const files::MappedFile file(path);
  std::string_view text = file.text();
  int64_t number = 0;
  for (size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    ++number;
    const nlohmann::json each = nlohmann::json::parse(text.substr(0, end), nullptr, false);
    text.remove_prefix(end + 1);
    if (!each.is_object() || !each.contains("step") || !each["step"].is_number_integer())
      throw file_error("[{}] line {}: expected an object with a step", path.string(), number);
    for (const auto& [key, points] :
         {std::pair{"loss", &curve.training}, std::pair{"validation_loss", &curve.validation}})
      if (each.contains(key) && each[key].is_number() && std::isfinite(each[key].get<double>()))
        points->emplace_back(each["step"].get<int64_t>(), each[key].get<double>());
  }
  for (Points* points : {&curve.training, &curve.validation})
    std::stable_sort(points->begin(), points->end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
  return curve;
}

std::string loss_chart(std::span<const LossCurve> curves) {
  if (curves.empty() || curves.size() > kSvgColours.size())
    throw usage_error("[losses] expected 1 to {} folders, got {}", kSvgColours.size(),
                      curves.size());
  double least = std::numeric_limits<double>::infinity(), most = -least, first = least, last = most;
  for (const LossCurve& curve : curves)
    for (const Points& points : {mean_losses(curve.training), curve.validation})
      for (const auto& [step, loss] : points) {
        least = std::min(least, loss);
        most = std::max(most, loss);
        first = std::min(first, static_cast<double>(step));
        last = std::max(last, static_cast<double>(step));
      }
  if (!(least <= most))
    throw usage_error("[losses] expected at least one step, found none in {}",
                      printable(curves[0].name));
  const double top = kTop + 18 * static_cast<double>(curves.size() - 1);
  const Axis x(first, last, 8, kLeft, kWidth - kRight);
  const Axis y(least, most, 7, kHeight - kBottom, top);
  std::string out = svg_begin(kWidth, kHeight);
  out += frame(x, y);
  for (size_t i = 0; i < curves.size(); ++i) {
    out += drawn(curves[i], x, y, kSvgColours.at(i));
    const double at = 22 + 18 * static_cast<double>(i);
    out += svg_legend(kLeft, at, kSvgColours.at(i), legend(curves[i]));
  }
  return out + "</svg>\n";
}

}  // namespace ridge::report
