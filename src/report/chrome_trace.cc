// SPDX-License-Identifier: Apache-2.0
// Writes events one by one; a JSON document in memory would take ten times the size of the text.
#include "report/chrome_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/units.h"
#include "report/json_text.h"

namespace ridge::report {
namespace {

enum Track { kKernels = 1, kScopes = 2, kPhases = 3 };
constexpr int kFirstLane = 4;  // first of the additional kernel lanes
constexpr const char* kTrackNames[] = {"", "kernels", "scopes", "phases"};

// A slice that grows while the next span continues it.
struct OpenSlice {
  std::string name;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
};

class Writer {
 public:
  explicit Writer(int64_t cap_bytes) : cap_bytes_(cap_bytes) {}

  Trace finish(const record::LabRecord& lab) {
    Json other = heading(lab);
    other["dropped_events"] = trace_.dropped_events;
    trace_.text = "{\"traceEvents\": [\n" + body_ +
                  "\n], \"displayTimeUnit\": \"ms\", \"otherData\": " +
                  other.dump(-1, ' ', false, Json::error_handler_t::replace) + "}\n";
    if (trace_.dropped_events > 0)
      trace_.warning =
          fmt::format("trace.json holds the first {} events and omits {} more to stay under {}",
                      trace_.events, trace_.dropped_events, format_bytes(cap_bytes_));
    return std::move(trace_);
  }

  // Metadata events are few, so they are written even beyond the cap.
  void name(int pid, int tid, const char* what, Json value) {
    put({{"ph", "M"}, {"name", what}, {"pid", pid}, {"tid", tid}, {"args", std::move(value)}});
  }

  void slice(int pid,
             int track,
             const std::string& name,
             int64_t begin_ns,
             int64_t end_ns,
             Json args) {
    event({{"ph", "X"},
           {"name", name},
           {"pid", pid},
           {"tid", static_cast<int>(track)},
           {"ts", microseconds(begin_ns)},
           {"dur", microseconds(end_ns - begin_ns)},
           {"args", std::move(args)}});
  }

  void counter(int pid, int64_t at_ns, Json values) {
    event({{"ph", "C"},
           {"name", "memory (bytes)"},
           {"pid", pid},
           {"tid", 0},
           {"ts", microseconds(at_ns)},
           {"args", std::move(values)}});
  }

 private:
  // Nanoseconds are thousandths of a microsecond. Doubles hold 3 decimals exactly enough for weeks.
  static double microseconds(int64_t ns) { return static_cast<double>(ns) / 1000; }

  void event(const Json& json) {
    if (static_cast<int64_t>(body_.size()) >= cap_bytes_) {
      ++trace_.dropped_events;
      return;
    }
    put(json);
  }

  void put(const Json& json) {
    if (!body_.empty()) body_ += ",\n";
    body_ += json.dump(-1, ' ', false, Json::error_handler_t::replace);
    ++trace_.events;
  }

  int64_t cap_bytes_;
  std::string body_;
  Trace trace_;
};

Json kernel_args(const record::NodeRecord& node, int64_t repeat) {
  return {{"graph", node.graph},
          {"node", node.node},
          {"shape", node.shape},
          {"scope", node.scope},
          {"phase", node.phase},
          {"flops", node.work.flops / repeat},
          {"macs", node.work.macs / repeat},
          {"read_bytes", node.read_bytes / repeat},
          {"written_bytes", node.written_bytes / repeat},
          {"bound", name(node.bound)},
          {"predicted_us", node.predicted_ns / 1000 / static_cast<double>(repeat)}};
}

class RunWriter {
 public:
  RunWriter(const record::RunRecord& run, int pid, Writer& writer)
      : run_(run), pid_(pid), writer_(writer) {
    for (const record::MemoryPoint& point : run.memory.timeline)
      memory_[{point.graph, point.node}] = &point.live;
    for (const record::TimelineRun& each : run.step.timeline) ++repeats_[each.graph];
  }

  void write() {
    writer_.name(pid_, 0, "process_name", {{"name", "rank 0: " + run_.setting.str()}});
    writer_.name(pid_, 0, "process_sort_index", {{"sort_index", pid_}});
    for (Track track : {kKernels, kScopes, kPhases}) {
      const std::string device = track == kKernels ? " (" + run_.setting.device + ")" : "";
      writer_.name(pid_, track, "thread_name", {{"name", kTrackNames[track] + device}});
      writer_.name(pid_, track, "thread_sort_index", {{"sort_index", static_cast<int>(track)}});
    }
    int64_t start_ns = 0;
    for (const record::TimelineRun& each : run_.step.timeline) {
      write_graph(each, start_ns);
      close(kScopes, scope_);
      close(kPhases, phase_);
      start_ns += static_cast<int64_t>(std::ceil(each.run.wall_ns));
    }
  }

 private:
  void write_graph(const record::TimelineRun& each, int64_t start_ns) {
    const record::GraphName& graph = run_.step.graphs[static_cast<size_t>(each.graph)];
    int64_t free_ns = start_ns;  // end of the last slice of scopes and phases
    std::vector<int64_t> lanes;  // end of the last slice of each kernel lane
    for (const record::Span& span : each.run.spans) {
      const record::NodeRecord& node =
          run_.step.nodes[static_cast<size_t>(graph.record_of[static_cast<size_t>(span.node)])];
      int64_t begin = start_ns + static_cast<int64_t>(std::floor(span.begin_ns));
      int64_t end = std::max(begin, start_ns + static_cast<int64_t>(std::floor(span.end_ns)));
      writer_.slice(pid_, lane_of(lanes, begin, end), node.op, begin, end,
                    kernel_args(node, repeats_.at(each.graph)));
      // The scope and phase tracks have one lane each.
      begin = std::max(free_ns, begin);
      end = std::max(begin, end);
      free_ns = end;
      extend(kScopes, scope_, node.scope, begin, end);
      extend(kPhases, phase_, node.phase, begin, end);
      auto live = memory_.find({graph.name, span.node});
      if (live != memory_.end())
        writer_.counter(pid_, begin, memory_classes_json(live->second->bytes));
    }
  }

  // Returns the first free lane; kernels that overlap need several.
  int lane_of(std::vector<int64_t>& lanes, int64_t begin_ns, int64_t end_ns) {
    size_t lane = 0;
    while (lane < lanes.size() && lanes[lane] > begin_ns) ++lane;
    if (lane == lanes.size())
      lanes.push_back(end_ns);
    else
      lanes[lane] = end_ns;
    if (lane == 0) return kKernels;
    int track = kFirstLane + static_cast<int>(lane) - 1;
    if (named_lanes_ < static_cast<int>(lane)) {
      named_lanes_ = static_cast<int>(lane);
      writer_.name(pid_, track, "thread_name", {{"name", "overlapping kernels"}});
    }
    return track;
  }

  void extend(Track track,
              OpenSlice& open,
              const std::string& name,
              int64_t begin_ns,
              int64_t end_ns) {
    if (open.name != name) {
      close(track, open);
      open = {name, begin_ns, end_ns};
    }
    open.end_ns = end_ns;
  }

  void close(Track track, OpenSlice& open) {
    if (!open.name.empty())
      writer_.slice(pid_, track, open.name, open.begin_ns, open.end_ns, Json::object());
    open = {};
  }

  const record::RunRecord& run_;
  int pid_;
  Writer& writer_;
  std::map<std::pair<std::string, NodeId>, const plan::MemoryMoment*> memory_;
  std::map<int, int64_t> repeats_;  // number of times that the step ran each graph
  OpenSlice scope_, phase_;
  int named_lanes_ = 0;
};

}  // namespace

Trace chrome_trace(const record::LabRecord& lab, int64_t cap_bytes) {
  Writer writer(cap_bytes);
  int pid = 0;
  for (size_t index : lab.detailed) RunWriter(lab.runs[index], ++pid, writer).write();
  return writer.finish(lab);
}

}  // namespace ridge::report
