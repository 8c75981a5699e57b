// SPDX-License-Identifier: Apache-2.0
// Builds memory.json.
#include "report/memory_json.h"

#include "report/json_text.h"

namespace ridge::report {
namespace {

// The buffers at the peak and the timeline.
void add_detail(const record::MemoryRecord& m, Json& json) {
  Json& tensors = json["tensors_at_peak"] = Json::array();
  for (const record::LiveTensor& tensor : m.at_peak)
    tensors.push_back({{"name", tensor.name},
                       {"op", tensor.op},
                       {"scope", tensor.scope},
                       {"phase", tensor.phase},
                       {"type", tensor.type},
                       {"class", name(tensor.memory_class)},
                       {"bytes", tensor.bytes}});
  Json& timeline = json["timeline"] = Json::array();
  for (const record::MemoryPoint& point : m.timeline)
    timeline.push_back({{"graph", point.graph},
                        {"node", point.node},
                        {"op", point.op},
                        {"scope", point.scope},
                        {"phase", point.phase},
                        {"total_bytes", point.live.total()},
                        {"bytes", memory_classes_json(point.live.bytes)}});
}

Json run_json(const record::RunRecord& run) {
  const record::MemoryRecord& m = run.memory;
  Json json = {{"setting", to_json(run.setting)},
               {"owned_bytes", m.owned_bytes},
               {"arena_bytes", m.arena_bytes},
               {"allocated_bytes", m.allocated_bytes},
               {"live_peak_bytes", m.live_peak_bytes},
               {"store_bytes", memory_classes_json(m.store_bytes)},
               {"peak_by_class_bytes", memory_classes_json(m.class_peaks().bytes)},
               {"process",
                {{"foreign_bytes", m.foreign_bytes},
                 {"predicted_peak_bytes", m.predicted_peak_bytes()},
                 {"measured_peak_bytes", m.after.peak_bytes},
                 {"measured_resident_bytes", m.after.resident_bytes},
                 {"peak_is_of_the_steps_alone", m.peak_was_reset}}}};
  if (const record::MemoryPoint* peak = m.peak())
    json["peak_at"] = {{"graph", peak->graph},
                       {"node", peak->node},
                       {"op", peak->op},
                       {"scope", peak->scope},
                       {"phase", peak->phase},
                       {"total_bytes", peak->live.total()},
                       {"bytes", memory_classes_json(peak->live.bytes)}};
  return json;
}

}  // namespace

std::string memory_json(const record::LabRecord& lab) {
  Json json = heading(lab);
  json["conventions"] = {
      {"owned", "exact: the arena of temporaries and the store of parameters, states and inputs"},
      {"foreign",
       "resident before the first allocation: code, libraries, kernels generated at run time"},
      {"live",
       "what the schedule needs while the node runs; the arena is larger by the gaps of packing"}};
  Json& runs = json["runs"] = Json::array();
  for (const record::RunRecord& run : lab.runs) {
    runs.push_back(run_json(run));
    add_detail(run.memory, runs.back());
  }
  return json_text(json);
}

}  // namespace ridge::report
