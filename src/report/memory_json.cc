// SPDX-License-Identifier: Apache-2.0
// Builds memory.json.
#include "report/performance_summary.h"

#include "report/json_text.h"

namespace ridge::report {
namespace {

Json run_json(const record::RunRecord& run) {
  const Json all = to_json(run.memory);
  Json json = {{"setting", to_json(run.setting)}};
  add(json, all,
      "owned_bytes arena_bytes allocated_bytes live_peak_bytes store_bytes peak_by_class_bytes");
  add(json["process"], all,
      "foreign_bytes predicted_peak_bytes measured_peak_bytes measured_resident_bytes "
      "peak_is_of_the_steps_alone");
  if (const record::MemoryPoint* peak = run.memory.peak()) json["peak_at"] = to_json(*peak);
  json["tensors_at_peak"] = value_json(run.memory.at_peak);
  json["timeline"] = value_json(run.memory.timeline);
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
  json["runs"] = json_list(lab.runs, run_json);
  return json_text(json);
}

}  // namespace ridge::report
