// SPDX-License-Identifier: Apache-2.0
// Gathers the files of a folder and cuts what is too large for a page.
#include "report/run_folder.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "files/json.h"
#include "files/json_field.h"
#include "record/summary_file.h"
#include "report/kernels_json.h"

namespace ridge::report {
namespace {

using files::JsonField;
using nlohmann::json;

constexpr const char* kSummary = "performance_summary.json";
constexpr const char* kFlops = "flops_profile.json";
constexpr const char* kMemory = "memory.json";
constexpr const char* kKernels = "kernels.json";
constexpr const char* kTrace = "trace.json";  // only of folders without kernels.json
constexpr const char* kInference = "infer_summary.json";
constexpr const char* kBench = "bench.json";

// A string of a file: not longer than a page shows.
std::string text_of(const JsonField& field) {
  constexpr size_t kLongest = 200;
  const std::string& text = field.text();
  return text.size() > kLongest ? text.substr(0, kLongest) + "..." : text;
}

class Gatherer {
 public:
  Gatherer(const RunFolder& folder, const DocumentLimits& limits)
      : files_(folder.files), limits_(limits) {
    document_ = {{"name", folder.name}, {"runs", json::array()}, {"left_out", json::array()}};
  }

  json gather() {
    if (const json* summary = file(kSummary)) add_summary(*summary);
    if (const json* flops = file(kFlops)) attach(*flops, kFlops, "flops_profile");
    if (const json* memory = file(kMemory)) add_memory(*memory);
    if (const json* kernels = file(kKernels))
      add_kernels(*kernels);
    else if (const json* trace = file(kTrace))
      add_trace(*trace);
    if (const json* inference = file(kInference)) document_["inference"] = *inference;
    if (const json* bench = file(kBench)) add_bench(*bench);
    return std::move(document_);
  }

 private:
  const json* file(const char* name) const {
    auto found = files_.find(name);
    return found == files_.end() ? nullptr : &found->second;
  }

  void leave_out(std::string sentence) { document_["left_out"].push_back(std::move(sentence)); }

  void add_summary(const json& original) {
    json summary = record::current_summary(original, kSummary);
    record::read_summary(summary, kSummary);  // checks the fields
    for (const char* key : {"program", "command", "finished_at", "machine", "roofs", "runs",
                            "advice", "trial", "trials", "warnings"})
      if (summary.contains(key)) document_[key] = std::move(summary[key]);
    for (json& run : document_["runs"]) {
      thin(run["step_samples_ns"], "step times");
      if (run.contains("loss")) thin(run["loss"]["all"], "losses");
    }
  }

  void add_bench(const json& bench) {
    const JsonField root(bench, kBench);
    if (root.at("version").integer() != 1) throw root.at("version").fault("version 1");
    document_["bench"] = {{"kind", root.at("kind").text()}, {"result", root.at("result").object()}};
    for (const char* key : {"program", "command", "finished_at", "machine", "roofs"})
      if (root.has(key) && !document_.contains(key)) document_[key] = root.at(key).value();
  }

  // Keeps every k-th value of a series.
  void thin(json& series, const char* what) {
    if (!series.is_array() || series.size() <= limits_.samples) return;
    const size_t every = (series.size() + limits_.samples - 1) / limits_.samples;
    json kept = json::array();
    for (size_t i = 0; i < series.size(); i += every) kept.push_back(std::move(series[i]));
    leave_out(fmt::format("{} of {} {}: the page shows one in {}", series.size() - kept.size(),
                          series.size(), what, every));
    series = std::move(kept);
  }

  // The run with these settings; null if the summary has none.
  json* run_of(const json& part) {
    for (json& run : document_["runs"])
      if (part.contains("setting") && run["setting"] == part["setting"]) return &run;
    return nullptr;
  }

  void attach(const json& source, const char* name, const char* key) {
    for (const JsonField& part : JsonField(source, name).at("runs").items()) {
      part.object();
      if (json* run = run_of(part.value())) {
        json& copy = (*run)[key] = part.value();
        copy.erase("setting");
      }
    }
  }

  // The runs reported in detail come first: if the page cannot hold all points, others lack them.
  void add_memory(const json& source) {
    size_t left = limits_.memory_points, omitted = 0;
    const std::vector<JsonField> parts = JsonField(source, kMemory).at("runs").items();
    for (const bool is_detailed : {true, false})
      for (const JsonField& part : parts)
        if (json* run = run_of(part.value());
            run != nullptr && run->contains("operations") == is_detailed)
          add_memory(part, *run, left, omitted);
    if (omitted > 0) leave_out(fmt::format("{} points of the memory timelines", omitted));
  }

  // Points as rows: graph, node, op, scope, phase, then the bytes of each class.
  static void add_memory(const JsonField& part, json& run, size_t& left, size_t& omitted) {
    json& copy = run["memory_profile"] = part.value();
    copy.erase("setting");
    if (!part.has("timeline")) return;
    json& rows = copy["timeline"] = json::array();
    for (const JsonField& point : part.at("timeline").items()) {
      if (left == 0) {
        ++omitted;
        continue;
      }
      --left;
      json row = {text_of(point.at("graph")), point.at("node").integer(), text_of(point.at("op")),
                  text_of(point.at("scope")), text_of(point.at("phase"))};
      for (int i = 0; i < plan::kMemoryClasses; ++i)
        row.push_back(
            point.at("bytes").at(std::string(name(static_cast<plan::MemoryClass>(i)))).integer(0));
      rows.push_back(std::move(row));
    }
  }

  void add_kernels(const json& source) {
    const JsonField root(source, kKernels);
    if (root.at("version").integer() != 1) throw root.at("version").fault("version 1");
    if (root.at("columns").value() != json(kernel_column_names()))
      throw root.at("columns").fault("the columns of version 1");
    if (root.has("formulas")) document_["formulas"] = root.at("formulas").object();
    for (const JsonField& part : root.at("runs").items()) {
      std::vector<json> rows;
      for (const JsonField& row : part.at("rows").items()) {
        rows.push_back(kernel_row(row));
      }
      std::vector<Span> spans;
      for (const JsonField& span : part.at("spans").items()) {
        if (span.list().size() != 3) throw span.fault("[row, begin_ns, end_ns]");
        const auto last = static_cast<int64_t>(rows.size()) - 1;
        spans.push_back({static_cast<size_t>(span.at(size_t{0}).integer(0, last)),
                         span.at(1).integer(), span.at(2).integer()});
      }
      place(part.value(), std::move(rows), spans, false);
      if (json* run = run_of(part.value()); run != nullptr && part.has("scopes"))
        (*run)["kernels"]["scopes"] = scopes(part.at("scopes"));
    }
    cut_kernels();
  }

  // A row of kernels.json, with texts and numbers where the page expects them.
  static json kernel_row(const JsonField& row) {
    if (row.list().size() != kernel_columns().size())
      throw row.fault(fmt::format("{} values", kernel_columns().size()));
    json checked = json::array();
    for (const Json& kind : kernel_columns()) {
      const JsonField value = row.at(checked.size());
      if (kind.is_array())
        for (const JsonField& node : value.items()) node.integer();
      else if (!kind.is_string() && !value.value().is_null())
        value.real();
      checked.push_back(kind.is_string() ? json(text_of(value)) : value.value());
    }
    return checked;
  }

  json scopes(const JsonField& source) const {
    json kept = json::array();
    for (const JsonField& scope : source.items()) {
      if (scope.list().size() != 3) throw scope.fault("[graph, scope, compulsory_bytes]");
      if (kept.size() < limits_.kernels)
        kept.push_back(
            {text_of(scope.at(size_t{0})), text_of(scope.at(1)), scope.at(2).integer(0)});
    }
    return kept;
  }

  struct Span {
    size_t row = 0;
    int64_t begin_ns = 0, end_ns = 0;
  };

  void place(const json& part,
             std::vector<json> rows,
             const std::vector<Span>& spans,
             bool is_one_step) {
    json* run = run_of(part);
    if (run == nullptr) return;
    json slices = json::array();
    for (const Span& span : spans) slices.push_back({span.row, span.begin_ns, span.end_ns});
    (*run)["kernels"] = {{"columns", kernel_column_names()},
                         {"rows", std::move(rows)},
                         {"spans", std::move(slices)},
                         {"is_one_step", is_one_step}};
  }

  // Cuts the last kernels and slices where there are more than the page can hold.
  void cut_kernels() {
    size_t rows_left = limits_.kernels, spans_left = limits_.spans, rows_cut = 0, spans_cut = 0;
    for (json& run : document_["runs"]) {
      if (!run.contains("kernels")) continue;
      auto& rows = run["kernels"]["rows"].get_ref<json::array_t&>();
      auto& spans = run["kernels"]["spans"].get_ref<json::array_t&>();
      const size_t kept = std::min(rows.size(), rows_left);
      rows_cut += rows.size() - kept;
      rows.resize(kept);
      rows_left -= kept;
      const size_t before = spans.size();
      std::erase_if(spans, [&](const json& span) { return span[0].get<size_t>() >= kept; });
      spans.resize(std::min(spans.size(), spans_left));
      spans_left -= spans.size();
      spans_cut += before - spans.size();
    }
    if (rows_cut > 0) leave_out(fmt::format("{} kernels", rows_cut));
    if (spans_cut > 0) leave_out(fmt::format("{} slices of the timelines", spans_cut));
  }

  // Folders of before kernels.json: the kernels of the trace, with the times of its one step.
  struct TracedRun {
    std::vector<json> rows;
    std::vector<Span> spans;
    std::map<std::pair<std::string, int64_t>, size_t> row_of;  // by graph and node
  };

  static json traced_row(const JsonField& event, const JsonField& args) {
    json row = json::array();
    for (const auto& [name, kind] : kernel_columns().items()) {
      if (name == "op")
        row.push_back(text_of(event.at("name")));
      else if (name == "node")
        row.push_back(args.at("node").integer());
      else if (kind.is_string() && name != "inputs")
        row.push_back(text_of(args.at(name)));
      else
        row.push_back(nullptr);
    }
    return row;
  }

  static size_t column(const std::string& name) {
    return static_cast<size_t>(
        std::distance(kernel_columns().begin(), kernel_columns().find(name)));
  }

  static void add_slice(const JsonField& event, TracedRun& run) {
    const JsonField args = event.at("args");
    auto key = std::make_pair(args.at("graph").text(), args.at("node").integer());
    auto [place, is_new] = run.row_of.emplace(std::move(key), run.rows.size());
    if (is_new) run.rows.push_back(traced_row(event, args));
    json& row = run.rows[place->second];
    constexpr double kMost = 1e12;  // microseconds: eleven days
    const double begin_us = event.at("ts").real(), length_us = event.at("dur").real();
    if (!(std::abs(begin_us) < kMost)) throw event.at("ts").fault("a time in microseconds");
    if (!(length_us >= 0 && length_us < kMost))
      throw event.at("dur").fault("a length in microseconds");
    const auto begin = static_cast<int64_t>(std::llround(begin_us * 1000));
    const auto length = static_cast<int64_t>(std::llround(length_us * 1000));
    auto add = [&](const std::string& name, int64_t amount) {
      json& sum = row[column(name)];
      int64_t total = 0;
      if (__builtin_add_overflow(sum.is_null() ? 0 : sum.get<int64_t>(), amount, &total))
        throw args.fault("counts whose sum has 63 bits");
      sum = total;
    };
    add("calls", 1);
    add("time_ns", length);
    add("exclusive_ns", length);
    for (const char* name : {"flops", "macs", "read_bytes", "written_bytes"})
      add(name, args.at(name).integer(0));
    json& predicted = row[column("predicted_ns")];
    const double before_ns = predicted.is_null() ? 0 : predicted.get<double>();
    predicted = before_ns + 1000 * args.at("predicted_us").real();
    run.spans.push_back({place->second, begin, begin + length});
  }

  void add_trace(const json& source) {
    std::map<int64_t, TracedRun> traced;  // by process
    for (const JsonField& event : JsonField(source, kTrace).at("traceEvents").items()) {
      if (event.at("ph").text() != "X" || !event.has("args") || !event.at("args").has("node"))
        continue;
      add_slice(event, traced[event.at("pid").integer()]);
    }
    // Processes are the runs reported in detail, in their order.
    auto next = traced.begin();
    for (const json& run : document_["runs"]) {
      if (!run.contains("operations") || next == traced.end()) continue;
      place(run, std::move(next->second.rows), next->second.spans, true);
      ++next;
    }
    cut_kernels();
    if (!traced.empty())
      leave_out(
          "figures that older folders do not have: the kernels' intervals, operands and parameters");
  }

  const std::map<std::string, json>& files_;
  const DocumentLimits& limits_;
  json document_;
};

constexpr const char* kFiles[] = {kSummary, kFlops, kMemory, kKernels, kTrace, kInference, kBench};

}  // namespace

RunFolder read_run_folder(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path))
    throw file_error("[report] expected an output folder, found none at {}", path.string());
  const std::filesystem::path named = path.has_filename() ? path : path.parent_path();
  RunFolder folder{named.filename().string(), {}};
  for (const char* name : kFiles) {
    if (name == kTrace && folder.files.contains(kKernels)) continue;
    std::error_code error;
    if (std::filesystem::exists(path / name, error))
      folder.files.emplace(name, files::read_json(path / name));
  }
  if (!folder.files.contains(kSummary) && !folder.files.contains(kBench))
    throw file_error(
        "[report] {} has no {}: expected an output folder of ridge lab, train or infer-lab",
        path.string(), kSummary);
  return folder;
}

RunFolder run_folder(std::span<const OutputFile> files) {
  RunFolder folder;
  for (const char* name : kFiles)
    for (const OutputFile& file : files)
      if (file.name == name && !(name == kTrace && folder.files.contains(kKernels)))
        folder.files.emplace(name, files::parse_json(file.text, name));
  return folder;
}

json folder_document(const RunFolder& folder, const DocumentLimits& limits) {
  return Gatherer(folder, limits).gather();
}

}  // namespace ridge::report
