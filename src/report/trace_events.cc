// SPDX-License-Identifier: Apache-2.0
// Writes events one by one; a JSON document in memory would take ten times the size of the text.
#include "report/trace_events.h"

#include <fmt/format.h>

#include <utility>

namespace ridge::report {
namespace {

// Nanoseconds are thousandths of a microsecond. Doubles hold 3 decimals exactly enough for weeks.
double microseconds(int64_t ns) { return static_cast<double>(ns) / 1000; }

}  // namespace

void TraceEvents::name(int pid, int tid, const char* what, Json value) {
  put({{"ph", "M"}, {"name", what}, {"pid", pid}, {"tid", tid}, {"args", std::move(value)}});
}

void TraceEvents::thread(int pid, int tid, const std::string& name) {
  this->name(pid, tid, "thread_name", {{"name", name}});
  this->name(pid, tid, "thread_sort_index", {{"sort_index", tid}});
}

void TraceEvents::process(int pid, const std::string& name, const std::string& label, int place) {
  this->name(pid, 0, "process_name", {{"name", name}});
  this->name(pid, 0, "process_labels", {{"labels", label}});
  this->name(pid, 0, "process_sort_index", {{"sort_index", place}});
}

void TraceEvents::slice(const char* category,
                        const std::string& name,
                        Track track,
                        Slice at,
                        Json args) {
  event({{"ph", "X"},
         {"cat", category},
         {"name", name},
         {"pid", track.pid},
         {"tid", track.tid},
         {"ts", microseconds(at.begin_ns)},
         {"dur", microseconds(at.end_ns - at.begin_ns)},
         {"args", std::move(args)}});
}

void TraceEvents::flow(const char* side, int pid, int tid, int64_t at_ns, int64_t correlation) {
  Json json = {{"ph", side}, {"cat", "ac2g"}, {"name", "ac2g"},           {"id", correlation},
               {"pid", pid}, {"tid", tid},    {"ts", microseconds(at_ns)}};
  if (side[0] == 'f') json["bp"] = "e";
  event(json);
}

void TraceEvents::counter(const char* name, int pid, int64_t at_ns, Json values) {
  event({{"ph", "C"},
         {"name", name},
         {"pid", pid},
         {"tid", 0},
         {"ts", microseconds(at_ns)},
         {"args", std::move(values)}});
}

void TraceEvents::instant(const char* name, Track track, int64_t at_ns, Json args) {
  event({{"ph", "i"},
         {"s", "t"},
         {"cat", "cpu_instant_event"},
         {"name", name},
         {"pid", track.pid},
         {"tid", track.tid},
         {"ts", microseconds(at_ns)},
         {"args", std::move(args)}});
}

void TraceEvents::event(const Json& json) {
  if (static_cast<int64_t>(text_.size()) >= cap_bytes_)
    ++dropped_;
  else
    put(json);
}

void TraceEvents::put(const Json& json) {
  if (!text_.empty()) text_ += ",\n";
  text_ += json_line(json);
  ++written_;
}

void TraceEvents::add(const std::string& events, int64_t written, int64_t dropped) {
  if (!text_.empty() && !events.empty()) text_ += ",\n";
  text_ += events;
  written_ += written;
  dropped_ += dropped;
}

// Readers search for the rank line by line, before the events.
std::string TraceEvents::document(const Json& device,
                                  const std::string& name,
                                  const Json& other,
                                  int64_t rank,
                                  int64_t ranks) const {
  return fmt::format(
             "{{\n\"schemaVersion\": 1,\n\"deviceProperties\": [{}],\n\"distributedInfo\": {{\n"
             "\"rank\": {},\n\"world_size\": {}\n}},\n\"displayTimeUnit\": "
             "\"ms\",\n\"traceEvents\": [\n",
             json_line(device), rank, ranks) +
         text_ + "\n],\n\"traceName\": " + json_line(name) +
         ",\n\"otherData\": " + json_line(other) + "}\n";
}

}  // namespace ridge::report
