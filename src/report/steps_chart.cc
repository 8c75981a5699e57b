// SPDX-License-Identifier: Apache-2.0
// Draws the parts of instrumented steps as stacked bars.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "base/error.h"
#include "base/printable.h"
#include "base/units.h"
#include "report/bench_chart.h"
#include "report/svg.h"

namespace ridge::report {
namespace {

using files::JsonField;

// Pixels.
constexpr double kWidth = 720, kLeft = 76, kRight = 16, kTop = 48, kPlot = 280, kBelow = 50;
constexpr size_t kMostSteps = 64;
constexpr std::array kParts = {"forward", "backward", "optimizer", "idle and host"};

struct StepBar {
  int64_t step = 0;
  std::array<double, kParts.size()> ns{};  // stacked from below

  double all_ns() const {
    double sum = 0;
    for (const double each : ns) sum += each;
    return sum;
  }
};

StepBar bar_of(const JsonField& step) {
  StepBar bar;
  bar.step = step.at("step").integer();
  double kernels = 0;
  const char* const keys[] = {"forward_ns", "backward_ns", "optimizer_ns"};
  for (size_t i = 0; i < std::size(keys); ++i) {
    bar.ns[i] = std::max(0.0, step.real_or(keys[i], 0));
    kernels += bar.ns[i];
  }
  // Kernels that overlap take more time together than there is.
  bar.ns.back() = std::max(0.0, step.real_or("wall_ns", 0) - kernels);
  return bar;
}

std::string legend() {
  std::string out;
  for (size_t i = 0; i < kParts.size(); ++i) {
    out += svg_legend(kLeft + 150 * static_cast<double>(i), 35, kSvgColours.at(i), kParts.at(i));
  }
  return out;
}

std::string frame(double most_ns) {
  constexpr int kTicks = 5;
  return svg_grid(kLeft, kWidth - kRight, kTop, kPlot, kTicks,
                  [&](int i) { return format_ns(most_ns * i / kTicks); }) +
         fmt::format(
             "<text transform=\"translate(12,{}) rotate(-90)\" text-anchor=\"middle\">time</text>\n"
             "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">instrumented step</text>\n",
             kTop + kPlot / 2, (kLeft + kWidth - kRight) / 2, kTop + kPlot + 40);
}

}  // namespace

std::string steps_chart(const RunFolder& folder) {
  const nlohmann::json document = folder_document(folder);
  std::vector<StepBar> bars;
  std::string title;
  for (const JsonField& run : JsonField(document, "performance_summary.json").at("runs").items()) {
    if (!run.has("step_phases")) continue;
    std::vector<StepBar> found;
    for (const JsonField& step : run.at("step_phases").items())
      if (found.size() < kMostSteps) found.push_back(bar_of(step));
    if (found.empty()) continue;
    bars = std::move(found);
    title = run.text_or("text", "");
  }
  double most = 0;
  for (const StepBar& bar : bars) most = std::max(most, bar.all_ns());
  if (!(most > 0))
    throw usage_error(
        "[chart] expected a folder of ridge bench, demo or study, or one with instrumented steps, "
        "got {}: no point has a time",
        printable(folder.name));
  std::string out = svg_begin(kWidth, kTop + kPlot + kBelow) +
                    fmt::format("<text x=\"{}\" y=\"16\" font-weight=\"bold\">{}</text>\n", kLeft,
                                svg_text("Instrumented steps of " + title, 96)) +
                    legend() + frame(most);
  const double room = (kWidth - kRight - kLeft) / static_cast<double>(bars.size());
  const double wide = std::min(60.0, 0.7 * room);
  for (size_t i = 0; i < bars.size(); ++i) {
    const double middle = kLeft + room * (static_cast<double>(i) + 0.5);
    double y = kTop + kPlot;
    for (size_t part = 0; part < kParts.size(); ++part) {
      const double height = kPlot * bars[i].ns.at(part) / most;
      y -= height;
      out += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.2f}\" width=\"{:.1f}\" height=\"{:.2f}\" fill=\"{}\"/>\n",
          middle - wide / 2, y, wide, height, kSvgColours.at(part));
    }
    if (room > 22 || i % 4 == 0)
      out += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", middle,
                         kTop + kPlot + 18, bars[i].step);
  }
  return out + "</svg>\n";
}

}  // namespace ridge::report
