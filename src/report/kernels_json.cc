// SPDX-License-Identifier: Apache-2.0
// Builds kernels.json.
#include "report/kernels_json.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "ops/registry.h"
#include "report/trace_layout.h"

namespace ridge::report {
namespace {

std::string line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json row(const record::NodeRecord& node) {
  Json values = Json::array();
  const Json named = to_json(node);
  for (const auto& [key, value] : named.items()) values.push_back(value);
  return values;
}

// Whole nanoseconds from the start of the step.
std::vector<std::string> spans(const record::StepRecord& step) {
  std::vector<std::string> lines;
  for (const record::TimelineRun& each : step.timeline) {
    const auto start_ns = static_cast<int64_t>(std::ceil(each.begin_ns));
    const std::vector<int>& record_of = step.graphs[static_cast<size_t>(each.graph)].record_of;
    for (const record::Span& span : each.run.spans)
      lines.push_back(line({record_of[static_cast<size_t>(span.node)],
                            start_ns + static_cast<int64_t>(std::floor(span.begin_ns)),
                            start_ns + static_cast<int64_t>(std::floor(span.end_ns))}));
  }
  return lines;
}

// The host in the same step. On a CPU its launches are the kernels.
std::vector<std::string> host(const record::RunRecord& run) {
  const bool on_gpu = run.setting.device == "cuda";
  std::vector<std::string> lines;
  for (const HostSlice& slice : lay_out(run).host)
    if (slice.kind == HostSlice::Kind::kAnnotation ||
        (slice.kind == HostSlice::Kind::kCall && on_gpu))
      lines.push_back(line({slice.name, slice.at.begin_ns, slice.at.end_ns}));
  return lines;
}

// The device's kernels of each row and how often the step ran them.
std::vector<std::string> device_kernels(const record::StepRecord& step) {
  struct Use {
    int row = 0;
    record::DeviceKernel kernel;
    int64_t calls = 0;
  };
  std::vector<Use> uses;
  for (const record::TimelineRun& each : step.timeline) {
    const std::vector<int>& record_of = step.graphs[static_cast<size_t>(each.graph)].record_of;
    for (const record::Span& span : each.run.spans) {
      if (span.kernel < 0) continue;
      const int row = record_of[static_cast<size_t>(span.node)];
      const record::DeviceKernel& kernel = each.run.kernels[static_cast<size_t>(span.kernel)];
      auto use = std::find_if(uses.begin(), uses.end(), [&](const Use& other) {
        return other.row == row && other.kernel == kernel;
      });
      if (use == uses.end()) use = uses.insert(uses.end(), {row, kernel, 0});
      ++use->calls;
    }
  }
  std::vector<std::string> lines;
  for (const auto& [row, kernel, calls] : uses)
    lines.push_back(line({{"row", row},
                          {"name", kernel.name},
                          {"calls", calls},
                          {"grid", kernel.grid},
                          {"block", kernel.block},
                          {"registers", kernel.registers},
                          {"static_shared_bytes", kernel.static_shared_bytes},
                          {"dynamic_shared_bytes", kernel.dynamic_shared_bytes},
                          {"estimated_occupancy", kernel.occupancy},
                          {"copied_bytes", kernel.copied_bytes}}));
  return lines;
}

std::vector<std::string> scopes(const record::StepRecord& step) {
  std::vector<std::string> lines;
  for (const record::ScopeBytes& each : step.scopes)
    lines.push_back(line({each.graph, each.scope, each.compulsory_bytes}));
  return lines;
}

std::string list(const std::vector<std::string>& lines) {
  std::string text = "[";
  for (size_t i = 0; i < lines.size(); ++i) text += (i > 0 ? ",\n" : "\n") + lines[i];
  return text + "]";
}

std::string run_text(const record::RunRecord& run) {
  std::vector<std::string> rows;
  for (const record::NodeRecord& node : run.step.nodes) rows.push_back(line(row(node)));
  return "{\"setting\": " + line(to_json(run.setting)) + ",\n\"rows\": " + list(rows) +
         ",\n\"spans\": " + list(spans(run.step)) + ",\n\"host\": " + list(host(run)) +
         ",\n\"device_kernels\": " + list(device_kernels(run.step)) +
         ",\n\"scopes\": " + list(scopes(run.step)) + "}";
}

// The formulas of the ops that have one.
Json formulas(const record::LabRecord& lab) {
  std::set<std::string> names;
  for (size_t index : lab.detailed)
    for (const record::NodeRecord& node : lab.runs[index].step.nodes) names.insert(node.op);
  Json json = Json::object();
  for (const std::string& name : names)
    if (const Op* op = ops::table().find(name); op != nullptr && !op->formula.empty())
      json[name] = op->formula;
  return json;
}

}  // namespace

const Json& kernel_columns() {
  static const Json kColumns = to_json(record::NodeRecord());
  return kColumns;
}

Json kernel_column_names() {
  Json names = Json::array();
  for (const auto& [name, value] : kernel_columns().items()) names.push_back(name);
  return names;
}

std::string kernels_json(const record::LabRecord& lab) {
  Json json = heading(lab);
  json["version"] = 1;
  json["columns"] = kernel_column_names();
  json["formulas"] = formulas(lab);
  std::vector<std::string> runs;
  for (size_t index : lab.detailed) runs.push_back(run_text(lab.runs[index]));
  std::string text = json_text(json);
  text.resize(text.rfind('}'));
  text.erase(text.find_last_not_of(" \n") + 1);
  return text + ",\n\"runs\": " + list(runs) + "}\n";
}

}  // namespace ridge::report
