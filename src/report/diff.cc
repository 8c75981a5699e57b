// SPDX-License-Identifier: Apache-2.0
// Writes the tables and the JSON.
#include "report/command_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>

#include "base/units.h"
#include "report/brief_report.h"
#include "report/command_text.h"
#include "report/tables.h"

namespace ridge::report {
namespace {

std::string painted(const record::Change& change, const TerminalOptions& options) {
  std::string verdict = change.verdict();
  if (verdict.starts_with("faster")) return paint(verdict, Colour::kGreen, options);
  if (verdict.starts_with("slower")) return paint(verdict, Colour::kRed, options);
  return paint(verdict, Colour::kDim, options);
}

// Rows, and the step below them.
std::string change_table(const char* first_header,
                         const std::vector<record::Change>& rows,
                         const record::Change& step,
                         const TerminalOptions& options) {
  Table table(
      fmt::format("<{} | A | interval of A ?1 | B | interval of B ?2 | B / A | <", first_header));
  auto add = [&](const record::Change& change) {
    table.add({terminal_safe(change.key), time_cell(change.before), interval_cell(change.before),
               time_cell(change.after), interval_cell(change.after),
               change.is_one_sided() ? "-" : fmt::format("{:.3f}", change.ratio()),
               painted(change, options)});
  };
  for (const record::Change& change : rows) add(change);
  if (!rows.empty()) table.add_rule();
  add(step);
  return table.text(options);
}

std::string signed_time(double ns) {
  return fmt::format("{}{}", ns < 0 ? "-" : "+", format_ns(std::abs(ns)));
}

// "B takes 37.5 ms longer: matmul +20.1 ms, ..." explains the difference of the step.
std::string explanation(const record::RunChange& run) {
  constexpr size_t kMost = 5;
  const double step_ns = run.step.difference();
  std::vector<std::pair<double, std::string>> parts;
  for (const record::Change& change : run.kinds)
    parts.emplace_back(change.difference(), change.key);
  // Times of operations that overlap do not add up to the step, so nothing is what is left over.
  if (run.before->without_kernel_ns && run.after->without_kernel_ns)
    parts.emplace_back(*run.after->without_kernel_ns - *run.before->without_kernel_ns,
                       "idle and host");
  std::ranges::stable_sort(
      parts, [](double a, double b) { return std::abs(a) > std::abs(b); },
      [](const auto& part) { return part.first; });
  std::string text =
      fmt::format("B takes {} {}:", format_ns(std::abs(step_ns)), step_ns < 0 ? "less" : "longer");
  for (size_t i = 0; i < std::min(parts.size(), kMost); ++i)
    text += fmt::format("{} {} {}", i > 0 ? "," : "", terminal_safe(parts[i].second),
                        signed_time(parts[i].first));
  return text;
}

std::string run_text(const record::RunChange& run, const TerminalOptions& options) {
  std::string text = terminal_safe(run.before->setting.str());
  if (run.before->setting.str() != run.after->setting.str())
    text += " against " + terminal_safe(run.after->setting.str());
  text = "\n" + paint(wrap_lines(text, options.columns), Colour::kBold, options) + "\n";
  if (!run.kinds.empty() && !run.has_same_ops())
    text += change_table("kind", run.kinds, run.step, options) + "\n";
  text += change_table("op", run.ops, run.step, options);
  if (!run.kinds.empty()) text += wrap_lines(explanation(run), options.columns);
  std::optional<double> before = run.before->mean_loss, after = run.after->mean_loss;
  if (!before || !after) return text;
  return text + wrap_lines(fmt::format("mean loss {:.4f} and {:.4f} (difference {:.1e})", *before,
                                       *after, std::abs(*before - *after)),
                           options.columns);
}

// One row for each pair of runs, of which a screen holds the last.
std::string run_table(const std::vector<record::RunChange>& runs, const TerminalOptions& options) {
  // An imported run is compared with several of the other folder.
  const std::string first = runs.front().before->setting.str();
  const bool is_one = std::ranges::all_of(
      runs, [&](const record::RunChange& run) { return run.before->setting.str() == first; });
  const bool is_other = is_one && first != runs.front().after->setting.str();
  Table table(fmt::format("<{} | A | B | B / A | < | mean losses differ ?1",
                          is_other ? "run of B" : "run"));
  const size_t hidden = runs.size() > kBriefRuns ? runs.size() - kBriefRuns : 0;
  for (size_t i = hidden; i < runs.size(); ++i) {
    const record::RunChange& run = runs[i];
    const std::string before = run.before->setting.str(), after = run.after->setting.str();
    const std::optional<double> a = run.before->mean_loss, b = run.after->mean_loss;
    const bool is_short = is_other || before == after;
    table.add({terminal_safe(is_short ? after : before + " against " + after),
               spread_cell(run.step.before), spread_cell(run.step.after),
               fmt::format("{:.3f}", run.step.ratio()), painted(run.step, options),
               a && b ? fmt::format("{:.1e}", std::abs(*a - *b)) : "-"});
  }
  return (is_other ? wrap_lines("A is " + terminal_safe(first), options.columns) : "") +
         table.text(options) +
         (hidden > 0 ? fmt::format("{} more before these (--verbose)\n", hidden) : "");
}

// The largest differences of the last pair that has operations.
std::string largest_differences(const std::vector<record::RunChange>& runs,
                                const TerminalOptions& options) {
  const record::RunChange* last = nullptr;
  for (const record::RunChange& run : runs)
    if (!run.ops.empty()) last = &run;
  if (last == nullptr) return "";
  const bool by_kind = !last->kinds.empty() && !last->has_same_ops();
  std::vector<record::Change> rows = by_kind ? last->kinds : last->ops;
  std::ranges::stable_sort(rows, std::ranges::greater(),
                           [&](const record::Change& c) { return std::abs(c.difference()); });
  Table table(fmt::format("<{} | A | B | B - A | B / A | <", by_kind ? "kind" : "op"));
  for (size_t i = 0; i < std::min(rows.size(), kBriefOperations); ++i)
    table.add({terminal_safe(rows[i].key), spread_cell(rows[i].before), spread_cell(rows[i].after),
               signed_time(rows[i].difference()),
               rows[i].is_one_sided() ? "-" : fmt::format("{:.3f}", rows[i].ratio()),
               painted(rows[i], options)});
  std::string text = "\n" + table.text(options);
  if (rows.size() > kBriefOperations)
    text += fmt::format("{} more with smaller differences (--verbose)\n",
                        rows.size() - kBriefOperations);
  if (!last->kinds.empty()) text += wrap_lines(explanation(*last), options.columns);
  return text;
}

Json change_json(const record::Change& change) {
  const auto side = [](const Summary& s) { return to_json(s, "median_ns low_ns high_ns samples"); };
  return {{"key", change.key},
          {"a", side(change.before)},
          {"b", side(change.after)},
          {"ratio", change.is_one_sided() ? Json() : Json(change.ratio())},
          {"verdict", change.verdict()}};
}

std::string side_text(const char* side, const std::string& path, const record::SummaryFile& file) {
  return fmt::format("{}  {}: {}, {}\n", side, terminal_safe(path), device_name(file),
                     terminal_safe(file.finished_at));
}

}  // namespace

std::string diff_text(const DiffSide& a,
                      const DiffSide& b,
                      const std::vector<record::RunChange>& runs,
                      const TerminalOptions& options,
                      bool is_verbose) {
  std::string heading = side_text("A", a.path, a.file) + side_text("B", b.path, b.file);
  if (!a.file.device.empty() && !b.file.device.empty() && a.file.device != b.file.device)
    heading += "The machines differ, so the times are not comparable.\n";
  std::string text = wrap_lines(heading, options.columns) + (is_verbose ? "" : "\n");
  const TerminalOptions screen = fitted(options);
  if (is_verbose)
    for (const record::RunChange& run : runs) text += run_text(run, options);
  else
    text += run_table(runs, screen) + largest_differences(runs, screen);
  return text + (is_verbose ? "\n" : "") +
         wrap_lines(
             "noise: the 95% intervals of the medians overlap. ?: a run has fewer than 6 "
             "samples.",
             options.columns);
}

Json diff_json(const std::vector<record::RunChange>& runs) {
  return json_list(runs, [](const record::RunChange& run) {
    return Json{{"a", run.before->setting.str()},
                {"b", run.after->setting.str()},
                {"step", change_json(run.step)},
                {"by_op", json_list(run.ops, change_json)},
                {"by_kind", json_list(run.kinds, change_json)}};
  });
}

}  // namespace ridge::report
