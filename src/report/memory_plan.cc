// SPDX-License-Identifier: Apache-2.0
// Lists what is live, and stacks its classes.
#include "report/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <vector>

#include "base/units.h"
#include "report/svg.h"
#include "report/tables.h"

namespace ridge::report {
namespace {

using plan::kMemoryClasses;
using record::MemoryPoint;
using record::MemoryRecord;

constexpr size_t kMostTensors = 12;
// Pixels.
constexpr double kWidth = 720, kLeft = 76, kRight = 16, kTop = 52, kPlot = 200, kBelow = 50;
constexpr double kAcross = kWidth - kLeft - kRight;

std::string class_name(int index) {
  return std::string(name(static_cast<plan::MemoryClass>(index)));
}

// The point with the most memory of each part of the timeline.
std::vector<const MemoryPoint*> columns_of(const std::vector<MemoryPoint>& timeline) {
  const size_t count = std::min(timeline.size(), kMostColumns);
  std::vector<const MemoryPoint*> columns;
  for (size_t i = 0; i < count; ++i) {
    const size_t begin = i * timeline.size() / count, end = (i + 1) * timeline.size() / count;
    const std::span part(timeline.data() + begin, end - begin);
    columns.push_back(&*std::ranges::max_element(
        part, {}, [](const MemoryPoint& point) { return point.live.total(); }));
  }
  return columns;
}

std::string frame(int64_t most, size_t nodes) {
  constexpr int kTicks = 4;
  return svg_grid(kLeft, kWidth - kRight, kTop, kPlot, kTicks,
                  [&](int i) { return format_bytes(most * i / kTicks); }) +
         fmt::format(
             "<text x=\"{0}\" y=\"16\" font-weight=\"bold\">Live memory while each of {1} "
             "runs</text>\n"
             "<text x=\"{2}\" y=\"{3}\" text-anchor=\"middle\">node, in the order in which they "
             "run</text>\n",
             kLeft, counted(static_cast<int64_t>(nodes), "node"), kLeft + kAcross / 2,
             kTop + kPlot + 36);
}

std::string legend(const std::vector<int>& classes) {
  std::string out;
  double at = kLeft;
  for (const int each : classes) {
    out += svg_legend(at, 35, kSvgColours.at(static_cast<size_t>(each)), class_name(each));
    at += 30 + 7 * static_cast<double>(class_name(each).size());
  }
  return out;
}

}  // namespace

std::string memory_plan_text(const MemoryRecord& memory, const TerminalOptions& options) {
  const MemoryPoint* peak = memory.peak();
  if (peak == nullptr) return "";
  Table tensors("<live at the peak | <type | <memory | bytes");
  for (const record::LiveTensor& each :
       std::span(memory.at_peak).first(std::min(memory.at_peak.size(), kMostTensors)))
    tensors.add({each.name.empty() ? each.op : terminal_safe(each.name), each.type,
                 std::string(name(each.memory_class)), format_bytes(each.bytes)});
  std::string text = live_memory_table(memory).text(options) + "\n" + tensors.text(options);
  if (memory.at_peak.size() > kMostTensors)
    text += fmt::format("and {} more\n", memory.at_peak.size() - kMostTensors);
  return text + fmt::format("\nThe peak is at node {}, {}.\n", peak->node, peak->op);
}

Json memory_plan_json(const MemoryRecord& memory, const cost::CostedGraph& graph) {
  const Json all = to_json(memory);
  Json json;
  for (const char* key :
       {"owned_bytes", "arena_bytes", "live_peak_bytes", "store_bytes", "peak_by_class_bytes"})
    json[key] = all.value(key, Json(0));
  if (const MemoryPoint* peak = memory.peak()) json["peak_at"] = to_json(*peak);
  json["tensors_at_peak"] = value_json(memory.at_peak);
  json["timeline"] = value_json(memory.timeline);
  json["buffers"] = json_list(graph.memory.buffers, [](const plan::Buffer& buffer) {
    return Json{{"value", buffer.root == kNoValue ? Json() : Json(buffer.root)},
                {"first", buffer.first},
                {"last", buffer.last},
                {"offset", buffer.offset},
                {"bytes", buffer.bytes},
                {"memory_class", name(buffer.memory_class)}};
  });
  return json;
}

std::string memory_chart(const MemoryRecord& memory) {
  const MemoryPoint* peak = memory.peak();
  if (peak == nullptr) return "";
  const std::vector<const MemoryPoint*> columns = columns_of(memory.timeline);
  const int64_t most = std::max<int64_t>(peak->live.total(), 1);
  const plan::MemoryMoment highest = memory.class_peaks();
  std::vector<int> classes;
  for (int i = 0; i < kMemoryClasses; ++i)
    if (highest.bytes[i] > 0) classes.push_back(i);
  std::string out = svg_begin(kWidth, kTop + kPlot + kBelow) + frame(most, memory.timeline.size()) +
                    legend(classes);
  const double wide = kAcross / static_cast<double>(columns.size());
  for (size_t i = 0; i < columns.size(); ++i) {
    double top = kTop + kPlot;
    for (const int each : classes) {
      const double high =
          kPlot * static_cast<double>(columns[i]->live.bytes[each]) / static_cast<double>(most);
      if (high <= 0) continue;
      top -= high;
      out += fmt::format(
          "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\"/>\n",
          kLeft + wide * static_cast<double>(i), top, wide + 0.3, high,
          kSvgColours.at(static_cast<size_t>(each)));
    }
  }
  return out + "</svg>\n";
}

}  // namespace ridge::report
