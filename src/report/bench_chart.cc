// SPDX-License-Identifier: Apache-2.0
// Draws the times of a bench with straight SVG: lines over a size, or bars.
#include "report/bench_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "files/json_field.h"
#include "report/chart_model.h"
#include "report/svg.h"

namespace ridge::report {
namespace {

using files::JsonField;

// Pixels.
constexpr double kWidth = 720, kHeight = 380, kLeft = 64, kRight = 16, kTop = 16, kBottom = 44;
constexpr double kBarHeight = 20, kBarLeft = 230, kBarRight = 150;
constexpr size_t kMostBars = 120, kMostLines = 12, kMostPoints = 2000;

struct Mark {
  double x = 0, ns = 0;
};

// The measured and the predicted times of one form.
struct Line {
  std::vector<Mark> measured, predicted;
};

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

std::string lines_frame(const LogAxis& x, const LogAxis& y, const std::string& letter) {
  std::string out;
  y.each_tick([&](double ns) {
    out += fmt::format(
        "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/>"
        "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
        x.from, x.to, y.at(ns), x.from - 6, y.at(ns) + 4, format_ns(ns));
  });
  return out +
         fmt::format(
             "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#888\"/>\n"
             "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
             x.from, y.to, x.to - x.from, y.from - y.to, (x.from + x.to) / 2, y.from + 38,
             svg_text(letter));
}

// The sizes that occur, as far as they have room.
std::string size_ticks(const std::vector<double>& sizes, const LogAxis& x, double bottom) {
  std::string out;
  double last = -std::numeric_limits<double>::infinity();
  for (const double size : sizes) {
    constexpr double kRoom = 52;
    if (x.at(size) - last < kRoom) continue;
    last = x.at(size);
    out += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", last,
                       bottom + 18, format_integer(std::llround(size)));
  }
  return out;
}

std::string polyline(const std::vector<Mark>& marks,
                     const LogAxis& x,
                     const LogAxis& y,
                     const char* colour,
                     bool is_measured) {
  std::string at, circles;
  for (const Mark& mark : marks) {
    at += fmt::format("{}{:.1f},{:.1f}", at.empty() ? "" : " ", x.at(mark.x), y.at(mark.ns));
    if (is_measured)
      circles += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>",
                             x.at(mark.x), y.at(mark.ns), colour);
  }
  return fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\"{}/>{}\n", at, colour,
                     is_measured ? " stroke-width=\"2\"" : " stroke-dasharray=\"5 4\"", circles);
}

std::string lines_chart(const JsonField& result, const std::string& letter) {
  std::vector<std::string> names;
  std::map<std::string, Line> lines;
  std::vector<double> sizes;
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (const JsonField& point : result.at("cases").items()) {
    if (!point.at("shape").object().contains(letter) || sizes.size() >= kMostPoints) continue;
    const auto size = static_cast<double>(point.at("shape").at(letter).integer(1));
    const std::string name = joined(point.text_or("form", ""), point.text_or("phase", ""));
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      if (names.size() == kMostLines) continue;
      names.push_back(name);
    }
    for (const auto& [key, marks] : {std::pair{"median_ns", &lines[name].measured},
                                     std::pair{"predicted_ns", &lines[name].predicted}}) {
      const double ns = point.real_or(key, 0);
      if (!(ns > 0)) continue;
      marks->push_back({size, ns});
      least = std::min(least, ns);
      most = std::max(most, ns);
    }
    sizes.push_back(size);
  }
  if (!(least <= most)) throw usage_error("[chart] the folder has no point with a time");
  std::sort(sizes.begin(), sizes.end());
  const double top = kTop + 18 * static_cast<double>((names.size() + 2) / 3);
  const LogAxis x(sizes.front(), sizes.back(), kLeft + 20, kWidth - kRight - 20);
  const LogAxis y(least / 1.3, most * 1.3, kHeight - kBottom, top);
  LogAxis frame = x;
  frame.from = kLeft;
  frame.to = kWidth - kRight;
  std::string out = svg_begin(kWidth, kHeight) + lines_frame(frame, y, letter) +
                    size_ticks(sizes, x, kHeight - kBottom);
  for (size_t i = 0; i < names.size(); ++i) {
    const char* colour = kSvgColours.at(i % kSvgColours.size());
    out += polyline(lines[names[i]].predicted, x, y, colour, false) +
           polyline(lines[names[i]].measured, x, y, colour, true);
    const double at = kLeft + 215 * static_cast<double>(i % 3),
                 down = kTop + 4 + 18 * static_cast<double>(i / 3);
    out += fmt::format(
        "<rect x=\"{}\" y=\"{}\" width=\"10\" height=\"10\" fill=\"{}\"/><text x=\"{}\" y=\"{}\">{}</text>\n",
        at, down - 9, colour, at + 16, down, svg_text(names[i].empty() ? "time" : names[i]));
  }
  return out + "</svg>\n";
}

std::string bars_chart(const std::vector<Bar>& bars) {
  if (bars.empty()) throw usage_error("[chart] the folder has no point with a time");
  std::map<std::string, double> most;  // by group, which has a scale of its own
  double height = 8;
  const std::string* last = nullptr;
  for (const Bar& bar : bars) {
    double& value = most[bar.group];
    value = std::max({value, bar.value, bar.predicted, bar.published});
    if (!bar.group.empty() && (last == nullptr || *last != bar.group)) height += 28;
    last = &bar.group;
    height += kBarHeight;
  }
  std::string out = svg_begin(kWidth, height + 8);
  double y = 8;
  last = nullptr;
  for (const Bar& bar : bars) {
    if (!bar.group.empty() && (last == nullptr || *last != bar.group)) {
      out += fmt::format("<text x=\"8\" y=\"{}\" font-weight=\"bold\">{}</text>\n", y + 18,
                         svg_text(bar.group, 80));
      y += 28;
    }
    last = &bar.group;
    const double scale = (kWidth - kBarLeft - kBarRight) / std::max(most[bar.group], 1e-300);
    const double end = kBarLeft + scale * bar.value;
    out += fmt::format(
        "<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>"
        "<rect x=\"{}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\" fill=\"{}\" stroke=\"{}\"/>",
        kBarLeft - 8, y + 14, svg_text(bar.name), kBarLeft, y + 3, scale * bar.value,
        kBarHeight - 6, bar.is_measured ? kSvgColours[0] : "none", kSvgColours[0]);
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
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", text + 6, y + 14,
                       svg_text(bar.text));
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
  if (!document.contains("bench"))
    throw usage_error("[chart] expected a folder of ridge bench, demo or study, got {}",
                      printable(folder.name));
  const JsonField bench(document["bench"], "bench.json"), result = bench.at("result");
  if (result.has("values")) return bars_chart(value_bars(result));
  if (!result.has("cases"))
    throw usage_error("[chart] the folder has no points: {}", printable(folder.name));
  if (bench.at("kind").text() == "study") return bars_chart(technique_bars(result));
  const std::string letter = result.text_or("swept", "");
  return letter.empty() ? bars_chart(form_bars(result)) : lines_chart(result, letter);
}

}  // namespace ridge::report
