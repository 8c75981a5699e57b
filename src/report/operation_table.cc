// SPDX-License-Identifier: Apache-2.0
// Tables of operations.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "base/units.h"
#include "report/tables.h"

namespace ridge::report {
namespace {

std::string count(int64_t n) { return n == 0 ? "-" : format_count(static_cast<double>(n)); }

// Index of the exclusive time column, which appears only if kernels overlapped.
constexpr size_t kExclusiveColumn = 3;

// The share of the time that a rate refers to, unless that is all of it.
std::string counted_part(const record::OperationRow& row) {
  const double share = row.counted_share();
  return row.work.flops == 0 || share > 0.995 ? "" : fmt::format(" ({:.0f}%)", 100 * share);
}

// A name cut in the middle.
std::string shortened(const std::string& name) {
  constexpr size_t kMost = 60, kEnd = 20;
  if (name.size() <= kMost || std::ranges::any_of(name, [](char c) { return (c & 0x80) != 0; }))
    return name;
  return name.substr(0, kMost - kEnd - 1) + "…" + name.substr(name.size() - kEnd);
}

std::vector<std::string> cells(const record::OperationRow& row, bool beside) {
  bool is_measured = row.time_ns > 0;
  std::vector<std::string> all{
      std::string(static_cast<size_t>(2 * row.depth), ' ') + shortened(terminal_safe(row.key)),
      format_integer(row.calls),
      is_measured ? format_ns(static_cast<double>(row.time_ns)) : "-",
      row.samples.count > 1 ? fmt::format("{:.0f}%", 100 * row.samples.spread()) : "-",
      is_measured ? percent_cell(row.share) : "-",
      count(row.work.flops),
      count(row.work.macs),
      row.bytes() == 0 ? "-" : format_bytes(row.bytes()),
      row.intensity() > 0 ? fmt::format("{:.3g}", row.intensity()) : "-",
      rate_cell(row.flops_per_ns(), "FLOP/s") + counted_part(row),
      rate_cell(row.bytes_per_ns(), "B/s"),
      std::string(name(row.bound)),
      row.predicted_ns > 0 ? format_ns(row.predicted_ns) : "-",
      row.error() != 0 && !beside ? fmt::format("{:+.0f}%", 100 * row.error()) : "-"};
  if (beside)
    all.insert(all.begin() + kExclusiveColumn,
               is_measured ? format_ns(static_cast<double>(row.exclusive_ns)) : "-");
  return all;
}

// Sums the rows after the `most` largest into one, so that the columns still add up.
record::OperationRow rest(const record::OperationTable& table, size_t most) {
  record::OperationRow sum;
  sum.key = fmt::format("({} more)", table.rows.size() - most);
  for (size_t i = most; i < table.rows.size(); ++i) {
    add_amounts(sum, table.rows[i]);
    sum.share += table.rows[i].share;
  }
  return sum;
}

using Rows = std::vector<std::vector<std::string>>;  // an empty one is a rule

// A table without the columns that say nothing.
Table said(const std::string& title, std::vector<Table::Column> columns, const Rows& rows) {
  columns.insert(columns.begin(), {title, Align::kLeft});
  std::vector<bool> says(columns.size(), false);
  says[0] = true;
  for (const std::vector<std::string>& row : rows)
    for (size_t i = 1; i < row.size(); ++i)
      if (!row[i].empty() && row[i] != "-") says[i] = true;
  std::vector<Table::Column> kept;
  for (size_t i = 0; i < columns.size(); ++i)
    if (says[i]) kept.push_back(columns[i]);
  // Spare columns are numbered without gaps.
  std::vector<int> spares;
  for (const Table::Column& column : kept)
    if (column.spare > 0) spares.push_back(column.spare);
  for (Table::Column& column : kept)
    if (column.spare > 0)
      column.spare = 1 + static_cast<int>(std::ranges::count_if(
                             spares, [&](int spare) { return spare < column.spare; }));
  Table table(std::move(kept));
  for (const std::vector<std::string>& row : rows) {
    std::vector<std::string> cells;
    for (size_t i = 0; i < row.size(); ++i)
      if (says[i]) cells.push_back(row[i]);
    if (cells.empty())
      table.add_rule();
    else
      table.add(std::move(cells));
  }
  return table;
}

}  // namespace

std::string threads_part(const record::Setting& setting) {
  return setting.threads > 0 ? ", " + counted(setting.threads, "thread") : "";
}

bool side_by_side(const record::StepRecord& step) {
  return step.overlapped_ns > step.kernel_ns / 100;
}

bool is_of_another_program(const record::RunRecord& run) {
  return !run.plain_wall_ns.empty() && run.plain_wall_ns == run.step.wall_samples_ns;
}

std::string times_note(const record::RunRecord& run) {
  const size_t count = run.step.wall_samples_ns.size();
  const bool is_another = is_of_another_program(run), is_one = is_another && count == 1;
  std::string text =
      is_one ? "Times are those of the one step"
      : is_another
          ? fmt::format("Times are those of the step with the median wall time, of {}",
                        counted(count, "step"))
          : fmt::format("Times are means over the middle half of {} instrumented steps", count);
  if (!is_one) text += ", so rows add up; +- is half the 95% interval of the median";
  if (side_by_side(run.step))
    text +=
        ". Exclusive time divides a moment in which kernels overlap equally among them, and shares "
        "refer to it";
  if (is_another) return text + ".";
  if (side_by_side(run.step))
    text +=
        ". Predictions assume that a kernel has the device to itself, so run with --pass "
        "-branches for errors per operation";
  return text + fmt::format(
                    ". Clock readings take {:.3f}% of a step (their number times the cost of one). "
                    "Instrumented steps take {} longer than the plain steps between them; over the "
                    "whole run that is {}.",
                    100 * run.clock_cost(), profiling_cost(run), profiling_cost_of_run(run));
}

int64_t kernels_profiled(const record::StepRecord& step) {
  int64_t sum = 0;
  for (const record::TimelineRun& run : step.timeline)
    sum += static_cast<int64_t>(run.run.spans.size());
  return sum;
}

std::string kernel_count_note(const record::StepRecord& step) {
  std::map<std::string, std::pair<int64_t, int64_t>> counts;  // profiled, planned
  int64_t planned = 0;
  for (const record::TimelineRun& run : step.timeline)
    for (const record::Span& span : run.run.spans) {
      int record =
          step.graphs[static_cast<size_t>(run.graph)].record_of[static_cast<size_t>(span.node)];
      ++counts[step.nodes[static_cast<size_t>(record)].op].first;
    }
  for (const record::NodeRecord& node : step.nodes)
    counts[node.op].second += node.calls, planned += node.calls;
  std::string text;
  for (const auto& [op, count] : counts)
    if (count.first != count.second)
      text += fmt::format("{}{} {} for {}", text.empty() ? "" : ", ", terminal_safe(op),
                          format_integer(count.first), format_integer(count.second));
  if (text.empty() || step.timeline.empty()) return "";
  return fmt::format("{} kernels ran for {} planned calls: {} (a library may split a call).",
                     format_integer(kernels_profiled(step)), format_integer(planned), text);
}

std::vector<std::string> kernel_count_notes(const record::LabRecord& lab,
                                            std::span<const size_t> runs) {
  std::vector<std::string> notes;
  for (size_t run : runs)
    if (std::string note = kernel_count_note(lab.runs[run].step); !note.empty())
      notes.push_back(lab.runs[run].setting.level + ": " + note);
  return notes;
}

Table operation_table(const record::OperationTable& table,
                      const record::StepRecord& step,
                      size_t most) {
  const bool beside = side_by_side(step);
  Rows rows;
  bool is_cut = most > 0 && table.rows.size() > most + 1 && table.title != "scope";
  for (size_t i = 0; i < (is_cut ? most : table.rows.size()); ++i)
    rows.push_back(cells(table.rows[i], beside));
  if (is_cut) rows.push_back(cells(rest(table, most), beside));
  rows.emplace_back();
  rows.push_back(cells(table.total, beside));
  auto add = [&](const char* label, int64_t ns) {
    std::vector<std::string> row{label, "", format_ns(static_cast<double>(ns)), "",
                                 part_of(ns, step.wall_ns)};
    if (beside) row.insert(row.begin() + kExclusiveColumn, row[2]);
    rows.push_back(std::move(row));
  };
  if (step.wall_ns > 0) {
    add("idle", step.idle_ns);
    if (step.host_ns > 0) add("host", step.host_ns);
    add("step", step.wall_ns);
  }
  std::vector<Table::Column> columns = {{"calls", Align::kRight, 3},
                                        {"time"},
                                        {"+-", Align::kRight, 6},
                                        {"share"},
                                        {"FLOPs", Align::kRight, 2},
                                        {"MACs", Align::kRight, 8},
                                        {"bytes", Align::kRight, 7},
                                        {"FLOP/B", Align::kRight, 4},
                                        {"rate", Align::kRight, 1},
                                        {"bandwidth", Align::kRight, 5},
                                        {"bound", Align::kLeft},
                                        {"predicted"},
                                        {"error"}};
  if (beside) columns.insert(columns.begin() + kExclusiveColumn - 1, {"exclusive"});
  return said(terminal_safe(table.title), std::move(columns), rows);
}

Table brief_operation_table(const record::OperationTable& table,
                            const record::StepRecord& step,
                            size_t most,
                            const std::string& name) {
  const bool beside = side_by_side(step);
  record::OperationTable shown = table;
  // Their exclusive times are shown.
  if (beside)
    std::ranges::stable_sort(shown.rows, std::ranges::greater(),
                             &record::OperationRow::exclusive_ns);
  Rows rows;
  auto add = [&](const record::OperationRow& row) {
    std::vector<std::string> all = cells(row, false);
    if (beside) all[2] = format_ns(static_cast<double>(row.exclusive_ns));
    if (beside) all[13] = "-";
    rows.push_back({all[0], all[1], all[2], all[4], all[9], all[10], all[11], all[13]});
  };
  const bool is_cut = shown.rows.size() > most + 1;
  for (size_t i = 0; i < (is_cut ? most : shown.rows.size()); ++i) add(shown.rows[i]);
  if (is_cut) add(rest(shown, most));
  auto add_time = [&](const char* label, int64_t ns) {
    rows.push_back({label, "", format_ns(static_cast<double>(ns)), part_of(ns, step.wall_ns)});
  };
  if (step.wall_ns > 0) {
    add_time("idle and host", step.idle_ns + step.host_ns);
    add_time("step", step.wall_ns);
  }
  return said(terminal_safe(name.empty() ? table.title : table.title + " of " + name),
              {{"calls", Align::kRight, 3},
               {"time"},
               {"share"},
               {"rate", Align::kRight, 1},
               {"bandwidth", Align::kRight, 2},
               {"bound", Align::kLeft},
               {"error"}},
              rows);
}

Table pass_table(std::span<const cost::PassRecord> passes) {
  Table table(
      "<pass | <stage ?3 | calls | FLOPs ?5 | bytes ?2 | arena ?1 | predicted | "
      "took ?4 | <trade ?6");
  auto change = [](const std::string& before, const std::string& after) {
    return before == after ? after : before + " > " + after;
  };
  for (const cost::PassRecord& pass : passes) {
    const cost::GraphCost &a = pass.before, &b = pass.after;
    table.add(
        {pass.name, pass.stage, change(format_integer(a.launches), format_integer(b.launches)),
         change(count(a.flops), count(b.flops)),
         change(format_bytes(a.bytes), format_bytes(b.bytes)),
         change(format_bytes(a.peak_bytes), format_bytes(b.peak_bytes)),
         b.predicted_ns > 0 ? change(format_ns(a.predicted_ns), format_ns(b.predicted_ns)) : "-",
         format_ns(pass.elapsed_ns), pass.trade});
  }
  return table;
}

Table live_memory_table(const record::MemoryRecord& memory) {
  Table table("<memory | at the peak | highest");
  const record::MemoryPoint* peak = memory.peak();
  if (peak == nullptr) return table;
  plan::MemoryMoment highest = memory.class_peaks();
  for (int i = 0; i < plan::kMemoryClasses; ++i)
    if (highest.bytes[i] > 0)
      table.add({std::string(name(static_cast<plan::MemoryClass>(i))),
                 format_bytes(peak->live.bytes[i]), format_bytes(highest.bytes[i])});
  table.add_rule();
  table.add({"live", format_bytes(peak->live.total()), ""});
  table.add({"owned (arena and store)", format_bytes(memory.owned_bytes), ""});
  return table;
}

Table memory_table(const record::MemoryRecord& memory) {
  Table table = live_memory_table(memory);
  if (memory.peak() == nullptr) return table;
  table.add({"foreign (code, libraries)", format_bytes(memory.foreign_bytes), ""});
  table.add({"resident, predicted", format_bytes(memory.predicted_peak_bytes()), ""});
  if (memory.after.peak_bytes > 0)
    table.add({"resident, measured", format_bytes(memory.after.peak_bytes), ""});
  return table;
}

std::string confidence_text(double confidence) {
  return fmt::format("{:.0f}%", std::min(100 * confidence, 99.0));
}

std::string gains_text(const record::AdviceRecord& a) {
  return fmt::format(
      "predicted {:+.1f}% tokens/s{}, {:+.1f}% owned memory{}", 100 * a.time_gain,
      a.time_gain > 0 ? fmt::format(" (confidence {})", confidence_text(a.confidence)) : "",
      -100 * a.memory_gain, a.is_same_training ? "" : ", another training");
}

Table trial_table(const record::TrialRecord& trial) {
  Table table("< | before | after | gain");
  auto percent = [](double gain) { return fmt::format("{:+.1f}%", 100 * gain); };
  Summary before = trial.before.wall(), after = trial.after.wall();
  table.add({"step, predicted", format_ns(trial.advice.before_ns), format_ns(trial.advice.after_ns),
             percent(trial.advice.time_gain)});
  table.add({"step, measured", format_ns(before.median), format_ns(after.median),
             percent(trial.measured_gain())});
  table.add(
      {"95% interval", interval_cell(before), interval_cell(after), std::string(trial.verdict())});
  table.add({"owned memory", format_bytes(trial.before.memory.owned_bytes),
             format_bytes(trial.after.memory.owned_bytes), percent(-trial.advice.memory_gain)});
  table.add({"mean loss", fmt::format("{:.4f}", trial.before.mean_loss()),
             fmt::format("{:.4f}", trial.after.mean_loss()), ""});
  return table;
}

}  // namespace ridge::report
