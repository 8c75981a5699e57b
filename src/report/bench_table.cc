// SPDX-License-Identifier: Apache-2.0
// The columns of a bench.
#include "report/bench_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "base/units.h"
#include "record/bench_figures.h"
#include "report/json_text.h"
#include "report/model_bench.h"
#include "report/operators_csv.h"
#include "report/report_page.h"
#include "report/tables.h"

namespace ridge::report {
namespace {

using record::BenchPoint;
using record::BenchRecord;

int64_t shown_bytes(const BenchRecord& bench, const BenchPoint& p) {
  return bench.bytes != "ridge" && p.unfused_bytes ? *p.unfused_bytes : p.planned_bytes;
}

std::string intensity_text(int64_t flops, int64_t bytes) {
  if (bytes == 0 || flops == 0) return "-";
  const double value = static_cast<double>(flops) / static_cast<double>(bytes);
  return value < 10 ? fmt::format("{:.3f}", value) : fmt::format("{:.2f}", value);
}

std::string share_text(const BenchPoint& p) {
  if (const std::optional<double> share = p.limit_share())
    return fmt::format("{:.0f}%", 100 * *share);
  return p.is_measured() && p.limit_ns > 0 ? "faster" : "-";
}

std::string kernels_text(const BenchPoint& p) {
  std::string text;
  for (const auto& [op, count] : p.kernels)
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", op,
                        count == 1 ? "" : fmt::format(" x{}", count));
  return text;
}

// A column and the text of its cells; `is_used` says whether a point has something for it.
struct BenchColumn {
  Table::Column column;
  std::function<std::string(const BenchPoint&)> text;
  std::function<bool(const BenchPoint&)> is_used = [](const BenchPoint&) { return true; };
  bool is_time = false;  // it follows from a time
};

// In full where counts are all that is asked for.
std::string count_text(const BenchRecord& bench, int64_t count) {
  return bench.is_counts ? format_integer(count) : format_count(static_cast<double>(count));
}
std::string bytes_text(const BenchRecord& bench, int64_t bytes) {
  return bench.is_counts ? format_integer(bytes) : format_bytes(bytes);
}

// One for each source of published times.
std::vector<BenchColumn> published_columns(const BenchRecord& bench) {
  std::set<std::string> sources;
  for (const BenchPoint& each : bench.points)
    for (const auto& [source, ns] : each.published_ns) sources.insert(source);
  std::vector<BenchColumn> columns;
  for (const std::string& source : sources)
    columns.push_back({{source}, [source](const BenchPoint& p) {
                         const auto found = p.published_ns.find(source);
                         return found == p.published_ns.end() ? "-" : format_ns(found->second);
                       }});
  return columns;
}

// The column of a text that some points have.
BenchColumn text_column(const char* title, std::string BenchPoint::*text) {
  return {{title, Align::kLeft},
          [text](const BenchPoint& p) { return p.*text; },
          [text](const BenchPoint& p) { return !(p.*text).empty(); }};
}

std::vector<BenchColumn> columns_of(const BenchRecord& bench) {
  auto has_case = [](const BenchPoint& p) { return p.extents.empty() && !p.name.empty(); };
  auto has_flops = [](const BenchPoint& p) { return p.work.flops > 0; };
  auto is_measured = [](const BenchPoint& p) { return p.is_measured(); };
  auto is_predicted = [](const BenchPoint& p) { return p.predicted_ns > 0; };
  return {
      {{"case", Align::kLeft}, [](const BenchPoint& p) { return p.name; }, has_case},
      {{"op", Align::kLeft},
       [](const BenchPoint& p) { return p.name; },
       [&bench](const BenchPoint&) { return bench.kind == "shapes"; }},
      {{"dtype", Align::kLeft},
       [](const BenchPoint& p) { return p.dtype; },
       [&bench](const BenchPoint&) {
         return bench.kind == "shapes" || bench.dtype.find(',') != bench.dtype.npos;
       }},
      {{"shape", Align::kLeft},
       [](const BenchPoint& p) { return record::str(p.extents); },
       [](const BenchPoint& p) { return !p.extents.empty(); }},
      text_column("form", &BenchPoint::form),
      text_column("phase", &BenchPoint::phase),
      {{"inputs", Align::kLeft, 10}, [](const BenchPoint& p) { return p.inputs; }, has_case},
      {{"time"},
       [](const BenchPoint& p) {
         return !p.refused.empty() ? "not run" : p.is_measured() ? format_ns(p.time.median) : "-";
       },
       [](const BenchPoint& p) { return p.is_measured() || !p.refused.empty(); },
       true},
      {{"95% interval", Align::kRight, 3},
       [](const BenchPoint& p) { return p.is_measured() ? interval_cell(p.time) : "-"; },
       is_measured,
       true},
      {{"speed-up"},
       [](const BenchPoint& p) { return p.speedup ? fmt::format("{:.2f}x", *p.speedup) : "-"; },
       [](const BenchPoint& p) { return p.speedup.has_value(); },
       true},
      {{"kernels", Align::kRight, 7},
       [](const BenchPoint& p) { return std::to_string(p.launches); },
       [](const BenchPoint& p) { return p.launches > 1; }},
      {{"FLOPs", Align::kRight, 4},
       [&bench](const BenchPoint& p) { return count_text(bench, p.work.flops); },
       has_flops},
      {{"MACs", Align::kRight, 9},
       [&bench](const BenchPoint& p) { return count_text(bench, p.work.macs); },
       [](const BenchPoint& p) { return p.work.macs > 0; }},
      {{bench.bytes == "ridge" ? "bytes" : bench.bytes + " bytes", Align::kRight, 5},
       [&bench](const BenchPoint& p) { return bytes_text(bench, shown_bytes(bench, p)); }},
      {{"compulsory", Align::kRight, 8},
       [&bench](const BenchPoint& p) { return bytes_text(bench, p.compulsory_bytes); },
       [](const BenchPoint& p) { return p.compulsory_bytes != p.planned_bytes; }},
      {{"memory"},
       [](const BenchPoint& p) { return format_bytes(p.owned_bytes); },
       [&bench](const BenchPoint& p) {
         return (bench.kind == "attention" || bench.kind == "study") && p.owned_bytes > 0;
       }},
      {{"FLOP/B", Align::kRight, 6},
       [&bench](const BenchPoint& p) {
         return intensity_text(p.work.flops, shown_bytes(bench, p));
       },
       has_flops},
      {{"rate", Align::kRight, 1},
       [](const BenchPoint& p) {
         return p.work.flops == 0 || p.ns() == 0 ? "-" : format_rate(p.flops_per_s(), "FLOP/s");
       },
       has_flops,
       true},
      {{"bandwidth", Align::kRight, 2},
       [&bench](const BenchPoint& p) {
         return p.ns() > 0
                    ? format_rate(static_cast<double>(shown_bytes(bench, p)) / p.ns() * 1e9, "B/s")
                    : "-";
       },
       [](const BenchPoint& p) { return p.ns() > 0; },
       true},
      {{"predicted"},
       [](const BenchPoint& p) { return p.predicted_ns > 0 ? format_ns(p.predicted_ns) : "-"; },
       is_predicted,
       true},
      {{"error"},
       [](const BenchPoint& p) {
         return p.prediction_error() ? fmt::format("{:+.0f}%", 100 * *p.prediction_error()) : "-";
       },
       [&bench](const BenchPoint& p) {
         return bench.kind == "shapes" && p.prediction_error().has_value();
       },
       true},
      {{"limit", Align::kLeft},
       [](const BenchPoint& p) { return std::string(p.bound_by()); },
       is_predicted,
       true},
      {{"of limit"},
       share_text,
       [=](const BenchPoint& p) { return is_measured(p) && p.limit_ns > 0; },
       true}};
}

}  // namespace

Table bench_table(const BenchRecord& bench) {
  if (!bench.values.empty()) {
    Table table({{"case", Align::kLeft}, {bench.quantity}});
    for (const auto& [name, value] : bench.values)
      table.add({terminal_safe(name), fmt::format("{:.4g}", value)});
    return table;
  }
  std::vector<BenchColumn> used;
  for (BenchColumn& each : columns_of(bench))
    if (std::any_of(bench.points.begin(), bench.points.end(), each.is_used) &&
        !(bench.is_counts && each.is_time))
      used.push_back(std::move(each));
  if (!bench.is_counts)
    for (BenchColumn& each : published_columns(bench)) used.push_back(std::move(each));
  std::vector<Table::Column> columns;
  for (const BenchColumn& each : used) {
    columns.push_back(each.column);
    // The ranks of the columns that are left.
    if (int& spare = columns.back().spare; spare > 0)
      spare = 1 + static_cast<int>(std::count_if(used.begin(), used.end(), [&](const auto& other) {
                return other.column.spare > 0 && other.column.spare < each.column.spare;
              }));
  }
  Table table(std::move(columns));
  for (const BenchPoint& point : bench.points) {
    std::vector<std::string> cells;
    for (const BenchColumn& each : used)
      cells.push_back(terminal_safe(each.text(point), kLongestMessage));
    table.add(std::move(cells));
  }
  return table;
}

std::string bench_notes(const BenchRecord& bench) {
  std::string text;
  for (const auto& [name, sentence] :
       {std::pair{"Predicted", &bench.prediction}, {"Measured", &bench.finding}})
    if (!sentence->empty()) text += fmt::format("{}: {}\n", name, *sentence);
  for (const BenchPoint& each : bench.points)
    if (!each.refused.empty())
      text += fmt::format("Not run: {}{}: {}.\n",
                          each.extents.empty() ? each.name : record::str(each.extents),
                          each.form.empty() ? "" : ", " + each.form, each.refused);
  std::string caches;
  for (const BenchPoint& each : bench.points)
    if (!each.cache.empty() && caches.find(each.cache) == caches.npos && caches.size() < 400)
      caches += (caches.empty() ? "" : "; ") + each.cache;
  if (!caches.empty()) text += "Caches: " + caches + ".\n";
  std::set<std::string> listed;  // the first point of each form and phase
  for (const BenchPoint& each : bench.points) {
    if (each.launches < 2 || each.kernels.empty()) continue;
    std::string name = each.form.empty() ? each.name : each.form;
    if (!each.phase.empty()) name += ", " + each.phase;
    if (listed.empty()) text += "Kernels of the first point of each kind:\n";
    if (listed.insert(name).second) text += fmt::format("  {}: {}\n", name, kernels_text(each));
  }
  for (const record::BenchFit& each : bench.fits)
    text += fmt::format(
        "Fit{}: time = {} x {}^{:.2f} over {} sizes; the points lie {:.0f}% around it.\n",
        each.form.empty() ? "" : " of " + each.form, format_ns(each.factor), each.letter,
        each.power, each.points, 100 * each.residual);
  for (const record::BenchCliff& each : bench.cliffs)
    text += fmt::format("Cliff at {}: {:.2f} times the time that its neighbours' rates give{}.\n",
                        each.point, each.ratio,
                        terminal_safe((each.reason.empty() ? "" : "; ") + each.reason));
  for (const std::string& note : bench.notes) text += note + "\n";
  for (const std::string& sentence : bench.teaches) text += sentence + "\n";
  if (bench.is_interrupted)
    text += "Ctrl-C ended this early; the points that were complete are here.\n";
  return text;
}

std::string bench_csv(const BenchRecord& bench) {
  constexpr std::string_view kColumns =
      "name shape form phase dtype caches refused median_ns:.1f low_ns:.1f high_ns:.1f samples "
      "flops macs bytes compulsory_bytes unfused_bytes owned_bytes kernel_calls "
      "flops_per_byte:.4f flops_per_s:.0f bytes_per_s:.0f predicted_ns:.1f limit_ns:.1f bound "
      "level share_of_limit:.4f";
  std::string text = csv_header(kColumns) + "\r\n";
  for (const BenchPoint& p : bench.points) {
    Json values = to_json(p);
    values["shape"] = record::str(p.extents);
    values["flops_per_s"] = p.flops_per_s();
    values["bytes_per_s"] = p.bytes_per_s();
    text += csv_line(values, kColumns) + "\r\n";
  }
  return text;
}

Json bench_json(const BenchRecord& bench) { return to_json(bench); }

namespace {

std::string heading(const record::BenchRecord& bench) {
  const std::string& about = bench.claim.empty() ? bench.formula : bench.claim;
  std::string text = about.empty() ? bench.name : bench.name + ": " + about;
  text += fmt::format("\n{}", terminal_safe(bench.device, kLongestMessage));
  if (bench.threads > 0) text += ", " + counted(bench.threads, "thread");
  return text + ", " + bench.dtype;
}

}  // namespace

std::string benches_json(std::span<const record::BenchRecord> benches) {
  return json_text(json_list(benches, bench_json));
}

std::string bench_text(const record::BenchRecord& bench,
                       const std::string& format,
                       const TerminalOptions& terminal) {
  if (format == "csv") return bench_csv(bench);
  if (format == "json") return json_text(bench_json(bench));
  const std::string notes = terminal_safe_text(bench_notes(bench));
  if (format == "md") return bench_table(bench).markdown() + "\n" + notes;
  return wrap_lines(heading(bench), terminal.columns) + "\n" + bench_table(bench).text(terminal) +
         "\n" + wrap_lines(notes, terminal.columns);
}

namespace {

// `kind` is "op" or "model"; `result` is what the command prints with --json.
std::vector<OutputFile> files_of(const record::LabRecord& about,
                                 const std::string& kind,
                                 Json result) {
  Json json = report::heading(about);
  json["version"] = 1;
  if (about.ceilings) json["roofs"] = roofs_json(*about.ceilings);
  json["kind"] = kind;
  json["result"] = std::move(result);
  std::vector<OutputFile> files = {{"bench.json", json_text(json)}};
  files.push_back(page_file(files));
  return files;
}

}  // namespace

std::vector<OutputFile> bench_files(const record::LabRecord& about,
                                    const record::BenchRecord& bench) {
  return files_of(about, bench.kind, bench_json(bench));
}

std::vector<OutputFile> bench_files(const record::LabRecord& about,
                                    const record::ModelBenchRecord& bench) {
  return files_of(about, "model", model_bench_json(bench));
}

}  // namespace ridge::report
