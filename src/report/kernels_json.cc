// SPDX-License-Identifier: Apache-2.0
// Builds kernels.json.
#include "report/kernels_json.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "files/json_field.h"
#include "ops/registry.h"
#include "report/run_folder.h"
#include "report/trace_layout.h"

namespace ridge::report {
namespace {

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
      lines.push_back(json_line({record_of[static_cast<size_t>(span.node)],
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
      lines.push_back(json_line({slice.name, slice.at.begin_ns, slice.at.end_ns}));
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
    lines.push_back(json_line({{"row", row},
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
    lines.push_back(json_line({each.graph, each.scope, each.compulsory_bytes}));
  return lines;
}

std::string list(const std::vector<std::string>& lines) {
  std::string text = "[";
  for (size_t i = 0; i < lines.size(); ++i) text += (i > 0 ? ",\n" : "\n") + lines[i];
  return text + "]";
}

std::string run_text(const record::RunRecord& run) {
  std::vector<std::string> rows;
  for (const record::NodeRecord& node : run.step.nodes) rows.push_back(json_line(row(node)));
  return "{\"setting\": " + json_line(to_json(run.setting)) + ",\n\"rows\": " + list(rows) +
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

namespace {

using files::JsonField;
using nlohmann::json;

// A row of kernels.json, with texts and numbers where the page expects them.
json kernel_row(const JsonField& row) {
  if (row.list().size() != kernel_columns().size())
    throw row.fault(fmt::format("{} values", kernel_columns().size()));
  json checked = json::array();
  for (const Json& kind : kernel_columns()) {
    const JsonField value = row.at(checked.size());
    if (kind.is_array())
      for (const JsonField& node : value.items()) node.integer();
    else if (!kind.is_string() && !value.value().is_null())
      value.real();
    checked.push_back(kind.is_string() ? json(page_text(value)) : value.value());
  }
  return checked;
}

// A row with the texts of a traced slice, and no numbers yet.
json traced_row(const JsonField& event, const JsonField& args) {
  json row = json::array();
  for (const auto& [name, kind] : kernel_columns().items()) {
    if (name == "op")
      row.push_back(page_text(event.at("name")));
    else if (name == "node")
      row.push_back(args.at("node").integer());
    else if (kind.is_string() && name != "inputs")
      row.push_back(page_text(args.at(name)));
    else
      row.push_back(nullptr);
  }
  return row;
}

size_t column(const std::string& name) {
  return static_cast<size_t>(std::distance(kernel_columns().begin(), kernel_columns().find(name)));
}

// Nanoseconds of a time or a length in microseconds.
int64_t nanoseconds(const JsonField& field, double least) {
  constexpr double kMost = 1e12;  // eleven days
  if (const double us = field.real(); us >= least && us < kMost)
    return static_cast<int64_t>(std::llround(us * 1000));
  throw field.fault("a time of at most eleven days in microseconds");
}

void add(json& sum, int64_t amount, const JsonField& args) {
  int64_t total = 0;
  if (__builtin_add_overflow(sum.is_null() ? 0 : sum.get<int64_t>(), amount, &total))
    throw args.fault("counts whose sum has 63 bits");
  sum = total;
}

// Adds a slice to the row of its node; `rows` has the row of each graph and node.
void add_slice(const JsonField& event,
               std::map<std::pair<std::string, int64_t>, size_t>& rows,
               RunKernels& run) {
  const JsonField args = event.at("args");
  const auto [place, is_new] =
      rows.try_emplace({args.at("graph").text(), args.at("node").integer()}, run.rows.size());
  if (is_new) run.rows.push_back(traced_row(event, args));
  json& row = run.rows[place->second];
  const int64_t begin = nanoseconds(event.at("ts"), -1e12),
                length = nanoseconds(event.at("dur"), 0);
  add(row[column("calls")], 1, args);
  for (const char* name : {"time_ns", "exclusive_ns"}) add(row[column(name)], length, args);
  for (const char* name : {"flops", "macs", "read_bytes", "written_bytes"})
    add(row[column(name)], args.at(name).integer(0), args);
  json& predicted = row[column("predicted_ns")];
  const double before_ns = predicted.is_null() ? 0 : predicted.get<double>();
  predicted = before_ns + 1000 * args.at("predicted_us").real();
  run.spans.push_back({place->second, begin, begin + length});
}

}  // namespace

std::vector<RunKernels> read_kernels(const json& kernels) {
  const JsonField root(kernels, "kernels.json");
  if (root.at("version").integer() != 1) throw root.at("version").fault("version 1");
  if (root.at("columns").value() != json(kernel_column_names()))
    throw root.at("columns").fault("the columns of version 1");
  std::vector<RunKernels> runs;
  for (const JsonField& part : root.at("runs").items()) {
    RunKernels& run = runs.emplace_back(RunKernels{part.at("setting").value()});
    for (const JsonField& row : part.at("rows").items()) run.rows.push_back(kernel_row(row));
    const int64_t last = std::ssize(run.rows) - 1;
    for (const JsonField& span : part.at("spans").items()) {
      if (span.list().size() != 3) throw span.fault("[row, begin_ns, end_ns]");
      run.spans.push_back(
          {span.at(size_t{0}).integer(0, last), span.at(1).integer(), span.at(2).integer()});
    }
    if (!part.has("scopes")) continue;
    for (const JsonField& scope : part.at("scopes").items()) {
      if (scope.list().size() != 3) throw scope.fault("[graph, scope, compulsory_bytes]");
      run.scopes.push_back(
          {page_text(scope.at(size_t{0})), page_text(scope.at(1)), scope.at(2).integer(0)});
    }
  }
  return runs;
}

std::vector<RunKernels> read_traced_kernels(const json& trace) {
  std::map<int64_t, RunKernels> by_process;  // the runs reported in detail, in their order
  std::map<int64_t, std::map<std::pair<std::string, int64_t>, size_t>> rows;
  for (const JsonField& event : JsonField(trace, "trace.json").at("traceEvents").items())
    if (event.at("ph").text() == "X" && event.has("args") && event.at("args").has("node")) {
      const int64_t process = event.at("pid").integer();
      add_slice(event, rows[process], by_process[process]);
    }
  std::vector<RunKernels> runs;
  for (auto& [process, run] : by_process) runs.push_back(std::move(run));
  return runs;
}

}  // namespace ridge::report
