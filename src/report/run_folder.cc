// SPDX-License-Identifier: Apache-2.0
// Gathers the files of a folder and cuts what is too large for a page.
#include "report/run_folder.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "files/json.h"
#include "files/json_field.h"
#include "record/summary_file.h"
#include "report/bench_chart.h"
#include "report/chart_model.h"
#include "report/kernels_json.h"
#include "report/rank_files.h"

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
constexpr const char* kLog = "metrics.jsonl";  // by ridge train --log-dir

// The document of a folder on its way, and how much it may hold.
struct Gathering {
  json document;
  const DocumentLimits& limits;

  void leave_out(std::string sentence) { document["left_out"].push_back(std::move(sentence)); }
  // The run with these settings; null if the summary has none.
  json* run_of(const json& setting) {
    for (json& run : document["runs"])
      if (run["setting"] == setting) return &run;
    return nullptr;
  }
};

// Keeps every k-th value of a series.
void thin(json& series, const char* what, Gathering& made) {
  if (!series.is_array() || series.size() <= made.limits.samples) return;
  const size_t every = (series.size() + made.limits.samples - 1) / made.limits.samples;
  json kept = json::array();
  for (size_t i = 0; i < series.size(); i += every) kept.push_back(std::move(series[i]));
  made.leave_out(fmt::format("{} of {} {}: the page shows one in {}", series.size() - kept.size(),
                             series.size(), what, every));
  series = std::move(kept);
}

// The losses of a run as the points of a curve. Losses that are not finite are null in files.
void add_loss_curve(json& loss, Gathering& made) {
  LossPoints points;
  const json all = loss.value("all", json());
  for (size_t i = 0; all.is_array() && i < all.size(); ++i)
    if (all[i].is_number()) points.emplace_back(static_cast<int64_t>(i), all[i].get<double>());
  loss.erase("all");
  thin(loss["validation"], "validations", made);
  loss["curve"] = mean_losses(points, std::min(kMostLossPoints, made.limits.samples));
  if (loss["curve"].size() < points.size())
    made.leave_out(fmt::format("{} losses of {}: a point of the curve is the mean of several",
                               points.size() - loss["curve"].size(), points.size()));
}

// The roofs of folders of before they were written: those that the machine names.
json roofs_of(const JsonField& machine) {
  if (!machine.has("memory_bytes_per_s") || !machine.has("peak_flops_per_s")) return nullptr;
  json arithmetic = json::array();
  for (const auto& [name, rate] : machine.at("peak_flops_per_s").object().items())
    arithmetic.push_back(
        {{"name", name}, {"dtype", name.substr(0, name.find(' '))}, {"flops_per_s", rate}});
  return {
      {"memory", {{{"name", "memory"}, {"bytes_per_s", machine.at("memory_bytes_per_s").value()}}}},
      {"arithmetic", std::move(arithmetic)}};
}

void add_summary(const json& original, Gathering& made) {
  json summary = record::current_summary(original, kSummary), &document = made.document;
  const record::SummaryFile checked = record::read_summary(summary, kSummary);
  for (const char* key : {"program", "command", "finished_at", "machine", "roofs", "runs", "advice",
                          "trial", "trials", "warnings", "operation_times"})
    if (summary.contains(key)) document[key] = std::move(summary[key]);
  if (document.contains("machine") && !document.contains("roofs"))
    if (json roofs = roofs_of(JsonField(document["machine"], kSummary)); !roofs.is_null())
      document["roofs"] = std::move(roofs);
  for (size_t i = 0; i < checked.runs.size(); ++i) {
    json& run = document["runs"][i];
    run["text"] = checked.runs[i].setting.str();
    thin(run["step_samples_ns"], "step times", made);
    if (run.contains("loss")) add_loss_curve(run["loss"], made);
    if (document.contains("roofs") && run.contains("operations"))
      run["roofline"] = roofline_json(JsonField(document["roofs"], kSummary),
                                      run_points(JsonField(run, kSummary)));
  }
}

void add_bench(const json& bench, Gathering& made) {
  const JsonField root(bench, kBench);
  if (root.at("version").integer() != 1) throw root.at("version").fault("version 1");
  for (const char* key : {"program", "command", "finished_at", "machine", "roofs"})
    if (root.has(key) && !made.document.contains(key)) made.document[key] = root.at(key).value();
  json& part = made.document["bench"] = {{"kind", root.at("kind").text()},
                                         {"result", root.at("result").object()}};
  if (const JsonField result = root.at("result"); root.has("roofs") && result.has("cases"))
    part["roofline"] = roofline_json(root.at("roofs"), bench_points(result));
}

// The parts of a file by run, each with its place in the document.
template <class Add>
void each_run(const json& source, const char* name, Gathering& made, const Add& add) {
  for (const JsonField& part : JsonField(source, name).at("runs").items())
    if (part.object().contains("setting"))
      if (json* run = made.run_of(part.value()["setting"])) add(part, *run);
}

// Points as rows: graph, node, op, scope, phase, then the bytes of each class. The runs reported in
// detail come first: if the page cannot hold all points, others lack them.
void add_memory(const json& source, Gathering& made) {
  size_t left = made.limits.memory_points, omitted = 0;
  auto add = [&](const JsonField& part, json& run) {
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
      json row = {page_text(point.at("graph")), point.at("node").integer(),
                  page_text(point.at("op")), page_text(point.at("scope")),
                  page_text(point.at("phase"))};
      for (int i = 0; i < plan::kMemoryClasses; ++i)
        row.push_back(
            point.at("bytes").at(std::string(name(static_cast<plan::MemoryClass>(i)))).integer(0));
      rows.push_back(std::move(row));
    }
  };
  for (const bool is_detailed : {true, false})
    each_run(source, kMemory, made, [&](const JsonField& part, json& run) {
      if (run.contains("operations") == is_detailed) add(part, run);
    });
  if (omitted > 0) made.leave_out(fmt::format("{} points of the memory timelines", omitted));
}

void place(RunKernels kernels, bool is_one_step, const DocumentLimits& limits, json& run) {
  auto& scopes = kernels.scopes.get_ref<json::array_t&>();
  scopes.resize(std::min(scopes.size(), limits.kernels));
  run["kernels"] = {{"columns", kernel_column_names()},
                    {"rows", std::move(kernels.rows)},
                    {"spans", std::move(kernels.spans)},
                    {"scopes", std::move(kernels.scopes)},
                    {"is_one_step", is_one_step}};
}

// Cuts the last kernels and slices where there are more than the page can hold.
void cut_kernels(Gathering& made) {
  size_t rows_left = made.limits.kernels, spans_left = made.limits.spans;
  size_t rows_cut = 0, spans_cut = 0;
  for (json& run : made.document["runs"]) {
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
  if (rows_cut > 0) made.leave_out(fmt::format("{} kernels", rows_cut));
  if (spans_cut > 0) made.leave_out(fmt::format("{} slices of the timelines", spans_cut));
}

void add_kernels(const json& source, Gathering& made) {
  if (source.contains("formulas"))
    made.document["formulas"] = JsonField(source, kKernels).at("formulas").object();
  for (RunKernels& each : read_kernels(source))
    if (json* run = made.run_of(each.setting)) place(std::move(each), false, made.limits, *run);
  cut_kernels(made);
}

void add_trace(const json& source, Gathering& made) {
  std::vector<RunKernels> traced = read_traced_kernels(source);
  auto next = traced.begin();
  for (json& run : made.document["runs"])
    if (run.contains("operations") && next != traced.end())
      place(std::move(*next++), true, made.limits, run);
  cut_kernels(made);
  if (!traced.empty())
    made.leave_out(
        "figures that older folders do not have: the kernels' intervals, operands and parameters");
}

// The exchanges of ranks. The slices of their lanes are cut like those of the timelines.
void add_exchange(const json& source, Gathering& made) {
  record::ExchangeRecord exchange = read_exchange(JsonField(source, kRanksFile));
  size_t left = made.limits.spans, cut = 0;
  for (record::RankLane& lane : exchange.lanes) {
    const size_t kept = std::min(lane.slices.size(), left);
    cut += lane.slices.size() - kept;
    lane.slices.resize(kept);
    left -= kept;
  }
  if (cut > 0) made.leave_out(fmt::format("{} slices of the ranks' lanes", cut));
  made.document["ranks"] = json::parse(ranks_json(exchange));
}

constexpr const char* kFiles[] = {kSummary, kFlops,     kMemory, kKernels,
                                  kTrace,   kInference, kBench,  kRanksFile};

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
  if (folder.files.contains(kSummary) || folder.files.contains(kBench)) return folder;
  std::error_code error;
  if (!std::filesystem::exists(path / kLog, error))
    throw file_error(
        "[report] {} has no {}: expected an output folder of ridge lab, train or infer-lab, or a "
        "--log-dir of ridge train",
        path.string(), kSummary);
  const LossCurve curve = read_loss_curve(path);
  folder.files[kLog] = {{"training", curve.training}, {"validation", curve.validation}};
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

std::string page_text(const JsonField& field) {
  constexpr size_t kLongest = 200;
  const std::string& text = field.text();
  return text.size() > kLongest ? text.substr(0, kLongest) + "..." : text;
}

json folder_document(const RunFolder& folder, const DocumentLimits& limits) {
  Gathering made{{{"name", folder.name}, {"runs", json::array()}, {"left_out", json::array()}},
                 limits};
  auto with = [&](const char* name, const auto& add) {
    const auto found = folder.files.find(name);
    if (found != folder.files.end()) add(found->second, made);
  };
  with(kSummary, add_summary);
  with(kFlops, [](const json& flops, Gathering& to) {
    each_run(flops, kFlops, to, [](const JsonField& part, json& run) {
      (run["flops_profile"] = part.value()).erase("setting");
    });
  });
  with(kMemory, add_memory);
  with(kKernels, add_kernels);
  with(kTrace, add_trace);  // only of folders without kernels.json
  with(kInference, [](const json& study, Gathering& to) { to.document["inference"] = study; });
  with(kBench, add_bench);
  with(kRanksFile, add_exchange);
  with(kLog, [](const json& log, Gathering& to) {
    to.document["log"] = log;
    thin(to.document["log"]["training"], "losses", to);
  });
  return std::move(made.document);
}

}  // namespace ridge::report
