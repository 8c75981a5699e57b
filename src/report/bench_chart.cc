// SPDX-License-Identifier: Apache-2.0
// Draws the bars of a bench with straight SVG, and chooses between them and lines.
#include "report/bench_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "files/json_field.h"
#include "report/chart_model.h"
#include "report/line_chart.h"
#include "report/svg.h"

namespace ridge::report {
namespace {

using files::JsonField;

// Pixels.
constexpr double kWidth = 720, kBarHeight = 20, kBarLeft = 230, kLongestBar = 340;
constexpr double kLetter = 6.7;  // at most, of a text beside a bar
constexpr size_t kMostBars = 120, kLongestTitle = 96;

struct Bar {
  std::string group;  // a title over the first of several; empty for none
  std::string name;
  double value = 0;
  double predicted = 0;  // a mark beside a measured bar; 0: none
  bool is_measured = true;
  std::string text;       // beside the bar
  double published = -1;  // a mark of another machine; below 0: none
};

std::string joined(const std::string& a, const std::string& b) {
  return a.empty() || b.empty() ? a + b : a + ", " + b;
}

// Says which bars and marks are measured, predicted or published, as far as there are any.
std::string bars_legend(const std::vector<Bar>& bars, double y) {
  bool measured = false, hollow = false, mark = false, dot = false;
  for (const Bar& bar : bars) {
    measured |= bar.is_measured;
    hollow |= !bar.is_measured;
    mark |= bar.predicted > 0 && bar.is_measured;
    dot |= bar.published >= 0;
  }
  std::string out;
  double x = 8;
  auto add = [&](bool is_there, const std::string& sign, const char* text) {
    if (!is_there) return;
    out +=
        fmt::format("<g transform=\"translate({},{})\">{}<text x=\"20\" y=\"10\">{}</text></g>\n",
                    x, y, sign, text);
    x += 130;
  };
  auto box = [](const char* fill) {
    return fmt::format("<path d=\"M0 1h14v10h-14z\" fill=\"{}\" stroke=\"{}\"/>", fill,
                       kSvgColours[0]);
  };
  add(measured && (hollow || mark || dot), box(kSvgColours[0]), "measured");
  add(hollow, box("none"), "predicted");
  add(mark, "<path d=\"M7 0v12\" stroke=\"#888\" stroke-width=\"3\"/>", "predicted too");
  add(dot,
      fmt::format("<path d=\"M3 6a4 4 0 1 0 8 0a4 4 0 1 0 -8 0\" fill=\"{}\"/>", kSvgColours[1]),
      "published");
  return out;
}

// Wide enough for the texts beside the bars.
double bars_width(const std::vector<Bar>& bars) {
  size_t most = 0;
  for (const Bar& bar : bars) most = std::max(most, bar.text.size());
  return std::max(kWidth, kBarLeft + kLongestBar + 16 + kLetter * static_cast<double>(most));
}

std::string bar_svg(const Bar& bar, double scale, double y) {
  const double end = kBarLeft + scale * bar.value;
  std::string out = fmt::format(
      "<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>"
      "<rect x=\"{}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\" fill=\"{}\" stroke=\"{}\"/>",
      kBarLeft - 8, y + 14, svg_text(bar.name), kBarLeft, y + 3, scale * bar.value, kBarHeight - 6,
      bar.is_measured ? kSvgColours[0] : "none", kSvgColours[0]);
  double text = end;
  if (bar.predicted > 0 && bar.is_measured) {
    const double at = kBarLeft + scale * bar.predicted;
    out += fmt::format(
        "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\" stroke=\"#888\" stroke-width=\"3\"/>",
        at, y + 1, y + kBarHeight - 1);
    text = std::max(text, at);
  }
  if (bar.published >= 0) {
    const double at = kBarLeft + scale * bar.published;
    out += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"/>", at, y + 10,
                       kSvgColours[1]);
    text = std::max(text, at + 3);
  }
  return out + fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", text + 6, y + 14,
                           svg_text(bar.text));
}

std::string bars_chart(const std::vector<Bar>& bars, const std::string& title) {
  if (bars.empty()) throw usage_error("[chart] the folder has no point with a time");
  std::map<std::string, double> most;  // by group, which has a scale of its own
  const std::string legend = bars_legend(bars, 28);
  const double first = legend.empty() ? 28 : 52;  // below the title and the legend
  double height = first;
  const std::string* last = nullptr;
  for (const Bar& bar : bars) {
    double& value = most[bar.group];
    value = std::max({value, bar.value, bar.predicted, bar.published});
    if (!bar.group.empty() && (last == nullptr || *last != bar.group)) height += 28;
    last = &bar.group;
    height += kBarHeight;
  }
  std::string out = svg_begin(bars_width(bars), height + 8) +
                    fmt::format("<text x=\"8\" y=\"18\" font-weight=\"bold\">{}</text>\n",
                                svg_text(title, kLongestTitle)) +
                    legend;
  double y = first;
  last = nullptr;
  for (const Bar& bar : bars) {
    if (!bar.group.empty() && (last == nullptr || *last != bar.group)) {
      out += fmt::format("<text x=\"8\" y=\"{}\" font-weight=\"bold\">{}</text>\n", y + 18,
                         svg_text(bar.group, 80));
      y += 28;
    }
    last = &bar.group;
    out += bar_svg(bar, kLongestBar / std::max(most[bar.group], 1e-300), y);
    y += kBarHeight;
  }
  return out + "</svg>\n";
}

Bar time_bar(const JsonField& point, std::string name) {
  Bar bar;
  bar.name = std::move(name);
  bar.value = time_of(point);
  bar.is_measured = is_measured(point);
  bar.predicted = std::max(0.0, point.real_or("predicted_ns", 0));
  bar.text = format_ns(bar.value);
  return bar;
}

std::vector<Bar> form_bars(const JsonField& result) {
  std::vector<Bar> bars;
  for (const JsonField& point : result.at("cases").items()) {
    if (bars.size() == kMostBars || !(time_of(point) > 0)) continue;
    const std::string shape = shape_text(point);
    Bar bar = time_bar(point, joined(point.text_or("form", ""), point.text_or("phase", "")));
    if (bar.name.empty())
      bar.name = shape.empty() ? point.text_or("name", "") : shape;
    else
      bar.group = shape;
    bars.push_back(std::move(bar));
  }
  // The bars of a group lie together, groups in the order of their first bars.
  std::map<std::string, size_t> first;
  for (const Bar& bar : bars) first.try_emplace(bar.group, first.size());
  std::stable_sort(bars.begin(), bars.end(), [&](const Bar& a, const Bar& b) {
    return first.at(a.group) < first.at(b.group);
  });
  return bars;
}

std::vector<Bar> value_bars(const JsonField& result) {
  std::vector<Bar> bars;
  for (const JsonField& each : result.at("values").items()) {
    if (bars.size() == kMostBars) break;
    Bar bar;
    bar.group = result.text_or("quantity", "");
    bar.name = each.at("name").text();
    bar.value = std::max(0.0, each.at("value").real());
    bar.text = fmt::format("{:.4g}", each.at("value").real());
    bars.push_back(std::move(bar));
  }
  return bars;
}

// The last source of published times by its name, "machine, software": one is enough for marks, and
// bars name its machine.
std::string marked_source(const JsonField& result) {
  std::string last;
  for (const JsonField& point : result.at("cases").items())
    if (point.has("published_ns"))
      for (const auto& [source, ns] : point.at("published_ns").object().items())
        last = std::max(last, source);
  return last;
}

// Prefill first, then decode; in each a group for each length and type.
std::vector<Bar> technique_bars(const JsonField& result) {
  std::vector<Bar> bars;
  const std::string source = marked_source(result);
  for (const char* phase : {"prefill", "decode"})
    for (const JsonField& point : result.at("cases").items()) {
      if (bars.size() == kMostBars || point.text_or("phase", "") != phase || !(time_of(point) > 0))
        continue;
      const JsonField shape = point.at("shape");
      const bool decodes = std::string_view(phase) == "decode";
      Bar bar = time_bar(
          point, fmt::format("batch {}, {}", shape.integer_or("b", 1), point.text_or("form", "")));
      bar.group = fmt::format("{} {} tokens, {}", decodes ? "Decode: a token after" : "Prefill of",
                              shape.integer_or(decodes ? "c" : "t", 0), point.text_or("dtype", ""));
      if (point.has("published_ns") && point.at("published_ns").has(source)) {
        bar.published = std::max(0.0, point.at("published_ns").at(source).real());
        bar.text +=
            fmt::format("; {}: {}", source.substr(0, source.find(',')), format_ns(bar.published));
      }
      bars.push_back(std::move(bar));
    }
  return bars;
}

}  // namespace

std::string bench_chart(const RunFolder& folder) {
  const nlohmann::json document = folder_document(folder);
  if (!document.contains("bench")) return steps_chart(folder);
  const JsonField bench(document["bench"], "bench.json"), result = bench.at("result");
  if (result.has("values")) return bars_chart(value_bars(result), chart_title(bench));
  if (!result.has("cases"))
    throw usage_error("[chart] the folder has no points: {}", printable(folder.name));
  if (bench.at("kind").text() == "study")
    return bars_chart(technique_bars(result), chart_title(bench));
  const std::string letter = result.text_or("swept", "");
  return letter.empty() ? bars_chart(form_bars(result), chart_title(bench))
                        : lines_chart(bench, letter);
}

}  // namespace ridge::report
