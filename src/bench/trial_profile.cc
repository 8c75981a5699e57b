// SPDX-License-Identifier: Apache-2.0
// Names the settings of profiled points.
#include "bench/trial_profile.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/printable.h"

namespace ridge::bench {
namespace {

std::string task_of(const std::string& phase) {
  if (phase.empty()) return "forward";
  if (phase == "forward+backward" || phase == "prefill and backward") return "train";
  return phase;
}

record::Setting setting_of(const record::BenchRecord& bench,
                           const record::BenchPoint& point,
                           const backends::MachineOptions& machine) {
  record::Setting setting = backends::make_setting("", machine, {"baseline", ""}, "");
  setting.level = point.form.empty() ? "baseline" : point.form;
  setting.task = task_of(point.phase);
  setting.dtype = point.dtype;
  if (bench.kind == "module") {
    setting.model = bench.name;
    setting.batch_size = *record::find(point.extents, "b");
    setting.sequence = *record::find(point.extents, setting.task == "decode" ? "c" : "t");
    return setting;
  }
  setting.model = printable(point.name);
  if (!point.extents.empty()) setting.model += " " + record::str(point.extents);
  return setting;
}

}  // namespace

record::LabRecord profile_lab(record::LabRecord lab,
                              const record::BenchRecord& bench,
                              const backends::MachineOptions& machine) {
  for (const record::BenchPoint& point : bench.points) {
    if (point.profile == nullptr) continue;
    lab.detailed.push_back(lab.runs.size());
    record::RunRecord& run = lab.runs.emplace_back(*point.profile);
    run.setting = setting_of(bench, point, machine);
    record::check_consistency(run, lab);
  }
  return lab;
}

}  // namespace ridge::bench
