// SPDX-License-Identifier: Apache-2.0
// ridge diff: compares two output folders run by run and op by op, and separates differences from
// noise.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "apps/subcommand.h"
#include "base/error.h"
#include "base/units.h"
#include "record/summary_file.h"
#include "report/brief_report.h"
#include "report/json_text.h"
#include "report/tables.h"

namespace ridge::apps {
namespace {

struct DiffOptions {
  std::string before, after;
  bool json = false;
  bool verbose = false;
};

// One quantity in both runs; a run without it has no samples.
struct Change {
  std::string key;
  Summary before, after;

  bool is_one_sided() const { return before.count == 0 || after.count == 0; }
  double ratio() const { return before.median > 0 ? after.median / before.median : 0; }
  std::string verdict() const {
    if (before.count == 0) return "only in B";
    if (after.count == 0) return "only in A";
    if (overlap(before, after)) return "noise";
    // With too few samples the intervals cover less than 95%.
    const char* unsure = std::min(before.coverage, after.coverage) < 0.95 ? "?" : "";
    return fmt::format("{}{}", after.median < before.median ? "faster" : "slower", unsure);
  }
};

struct RunChange {
  const record::SummaryRun* before = nullptr;
  const record::SummaryRun* after = nullptr;
  Change step;
  std::vector<Change> ops;    // sorted by the larger of both times
  std::vector<Change> kinds;  // of operations, likewise; empty unless both folders have them
};

bool is_same_setting(const record::Setting& a, const record::Setting& b) {
  return a.model == b.model && a.level == b.level && a.batch_size == b.batch_size &&
         a.sequence == b.sequence && a.micro_batches == b.micro_batches;
}

using Rows = std::vector<record::SummaryOperation>;

std::vector<Change> row_changes(const Rows& before, const Rows& after) {
  std::map<std::string, Change> changes;
  for (const record::SummaryOperation& row : before) changes[row.key].before = row.samples;
  for (const record::SummaryOperation& row : after) changes[row.key].after = row.samples;
  std::vector<Change> sorted;
  for (auto& [key, change] : changes) {
    change.key = key;
    sorted.push_back(change);
  }
  auto size = [](const Change& c) { return std::max(c.before.median, c.after.median); };
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const Change& a, const Change& b) { return size(a) > size(b); });
  return sorted;
}

// The same work by another program, or at another level.
bool is_same_work(const record::Setting& a, const record::Setting& b) {
  return a.task == b.task && a.samples() == b.samples() && a.sequence == b.sequence;
}

// Pairs of runs with the same setting. If there are none and a folder has one run, such as an
// imported one: that with each run of the same work, or with the only run of the other folder.
std::vector<RunChange> match(const record::SummaryFile& a, const record::SummaryFile& b) {
  std::vector<RunChange> matched;
  auto add = [&](const record::SummaryRun& before, const record::SummaryRun& after) {
    matched.push_back({&before,
                       &after,
                       {"step", before.step, after.step},
                       row_changes(before.by_op, after.by_op),
                       {}});
    if (!before.by_kind.empty() && !after.by_kind.empty())
      matched.back().kinds = row_changes(before.by_kind, after.by_kind);
  };
  for (const record::SummaryRun& before : a.runs)
    for (const record::SummaryRun& after : b.runs)
      if (is_same_setting(before.setting, after.setting)) {
        add(before, after);
        break;
      }
  const bool has_one = a.runs.size() == 1 || b.runs.size() == 1;
  const bool have_one_each = a.runs.size() == 1 && b.runs.size() == 1;
  if (matched.empty() && has_one)
    for (const record::SummaryRun& before : a.runs)
      for (const record::SummaryRun& after : b.runs)
        if (have_one_each || is_same_work(before.setting, after.setting)) add(before, after);
  return matched;
}

std::string painted(const Change& change, const TerminalOptions& options) {
  std::string verdict = change.verdict();
  if (verdict.starts_with("faster")) return paint(verdict, Colour::kGreen, options);
  if (verdict.starts_with("slower")) return paint(verdict, Colour::kRed, options);
  return paint(verdict, Colour::kDim, options);
}

// Rows, and the step below them.
std::string change_table(const char* first_header,
                         const std::vector<Change>& rows,
                         const Change& step,
                         const TerminalOptions& options) {
  Table table({{first_header, Align::kLeft},
               {"A"},
               {"interval of A", Align::kRight, 1},
               {"B"},
               {"interval of B", Align::kRight, 2},
               {"B / A"},
               {"", Align::kLeft}});
  auto add = [&](const Change& change) {
    table.add({terminal_safe(change.key), report::time_cell(change.before),
               report::interval_cell(change.before), report::time_cell(change.after),
               report::interval_cell(change.after),
               change.is_one_sided() ? "-" : fmt::format("{:.3f}", change.ratio()),
               painted(change, options)});
  };
  for (const Change& change : rows) add(change);
  if (!rows.empty()) table.add_rule();
  add(step);
  return table.text(options);
}

// Whether the runs have mostly the same ops, so that these line up.
bool has_same_ops(const RunChange& run) {
  const auto one_sided = std::ranges::count_if(run.ops, &Change::is_one_sided);
  return 2 * static_cast<size_t>(one_sided) <= run.ops.size();
}

std::string signed_time(double ns) {
  return fmt::format("{}{}", ns < 0 ? "-" : "+", format_ns(std::abs(ns)));
}

// "B takes 37.5 ms longer: matmul +20.1 ms, ...": what explains the difference of the step.
std::string explanation(const RunChange& run) {
  constexpr size_t kMost = 5;
  auto difference = [](const Change& c) { return c.after.median - c.before.median; };
  const double step_ns = difference(run.step);
  std::vector<std::pair<double, std::string>> parts;
  double rest_ns = step_ns;
  for (const Change& change : run.kinds) {
    parts.emplace_back(difference(change), change.key);
    rest_ns -= difference(change);
  }
  parts.emplace_back(rest_ns, "outside of operations");
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

std::string run_text(const RunChange& run, const TerminalOptions& options) {
  std::string text = terminal_safe(run.before->setting.str());
  if (run.before->setting.str() != run.after->setting.str())
    text += " against " + terminal_safe(run.after->setting.str());
  text = "\n" + paint(wrap_lines(text, options.columns), Colour::kBold, options) + "\n";
  if (!run.kinds.empty() && !has_same_ops(run))
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
std::string brief_runs(const std::vector<RunChange>& runs, const TerminalOptions& options) {
  // An imported run is compared with several of the other folder.
  const std::string first = runs.front().before->setting.str();
  const bool is_one = std::ranges::all_of(
      runs, [&](const RunChange& run) { return run.before->setting.str() == first; });
  const bool is_other = is_one && first != runs.front().after->setting.str();
  Table table({{is_other ? "run of B" : "run", Align::kLeft},
               {"A"},
               {"B"},
               {"B / A"},
               {"", Align::kLeft},
               {"mean losses differ", Align::kRight, 1}});
  const size_t hidden = runs.size() > report::kBriefRuns ? runs.size() - report::kBriefRuns : 0;
  for (size_t i = hidden; i < runs.size(); ++i) {
    const RunChange& run = runs[i];
    const std::string before = run.before->setting.str(), after = run.after->setting.str();
    const std::optional<double> a = run.before->mean_loss, b = run.after->mean_loss;
    const bool is_short = is_other || before == after;
    table.add({terminal_safe(is_short ? after : before + " against " + after),
               report::spread_cell(run.step.before), report::spread_cell(run.step.after),
               fmt::format("{:.3f}", run.step.ratio()), painted(run.step, options),
               a && b ? fmt::format("{:.1e}", std::abs(*a - *b)) : "-"});
  }
  return (is_other ? wrap_lines("A is " + terminal_safe(first), options.columns) : "") +
         table.text(options) +
         (hidden > 0 ? fmt::format("{} more before these (--verbose)\n", hidden) : "");
}

// The largest differences of the last pair that has operations.
std::string brief_operations(const std::vector<RunChange>& runs, const TerminalOptions& options) {
  const RunChange* last = nullptr;
  for (const RunChange& run : runs)
    if (!run.ops.empty()) last = &run;
  if (last == nullptr) return "";
  const bool by_kind = !last->kinds.empty() && !has_same_ops(*last);
  std::vector<Change> rows = by_kind ? last->kinds : last->ops;
  auto difference = [](const Change& c) { return c.after.median - c.before.median; };
  std::ranges::stable_sort(rows, std::ranges::greater(),
                           [&](const Change& c) { return std::abs(difference(c)); });
  Table table({{by_kind ? "kind" : "op", Align::kLeft},
               {"A"},
               {"B"},
               {"B - A"},
               {"B / A"},
               {"", Align::kLeft}});
  for (size_t i = 0; i < std::min(rows.size(), report::kBriefOperations); ++i)
    table.add({terminal_safe(rows[i].key), report::spread_cell(rows[i].before),
               report::spread_cell(rows[i].after), signed_time(difference(rows[i])),
               rows[i].is_one_sided() ? "-" : fmt::format("{:.3f}", rows[i].ratio()),
               painted(rows[i], options)});
  std::string text = "\n" + table.text(options);
  if (rows.size() > report::kBriefOperations)
    text += fmt::format("{} more with smaller differences (--verbose)\n",
                        rows.size() - report::kBriefOperations);
  if (!last->kinds.empty()) text += wrap_lines(explanation(*last), options.columns);
  return text;
}

report::Json change_json(const Change& change) {
  auto side = [](const Summary& s) {
    return report::Json{
        {"median_ns", s.median}, {"low_ns", s.low}, {"high_ns", s.high}, {"samples", s.count}};
  };
  return {{"key", change.key},
          {"a", side(change.before)},
          {"b", side(change.after)},
          {"ratio", change.is_one_sided() ? report::Json() : report::Json(change.ratio())},
          {"verdict", change.verdict()}};
}

void print_json(const std::vector<RunChange>& runs) {
  auto json = report::Json::array();
  auto list = [](const std::vector<Change>& changes) {
    auto rows = report::Json::array();
    for (const Change& change : changes) rows.push_back(change_json(change));
    return rows;
  };
  for (const RunChange& run : runs) {
    json.push_back({{"a", run.before->setting.str()},
                    {"b", run.after->setting.str()},
                    {"step", change_json(run.step)},
                    {"by_op", list(run.ops)},
                    {"by_kind", list(run.kinds)}});
  }
  fmt::print("{}", report::json_text(json));
}

std::string device_name(const record::SummaryFile& file) {
  return file.device.empty() ? "an unknown machine" : terminal_safe(file.device);
}

void run(const DiffOptions& o, const TerminalOptions& options) {
  record::SummaryFile a = record::read_summary(o.before), b = record::read_summary(o.after);
  std::vector<RunChange> runs = match(a, b);
  if (runs.empty())
    throw usage_error("[diff] {} and {} have no run with the same model, level, batch and length",
                      o.before, o.after);
  if (o.json) return print_json(runs);
  std::string heading =
      fmt::format("A  {}: {}, {}\nB  {}: {}, {}\n", terminal_safe(o.before), device_name(a),
                  terminal_safe(a.finished_at), terminal_safe(o.after), device_name(b),
                  terminal_safe(b.finished_at));
  if (!a.device.empty() && !b.device.empty() && a.device != b.device)
    heading += "The machines differ, so the times are not comparable.\n";
  fmt::print("{}", wrap_lines(heading, options.columns));
  const TerminalOptions screen = report::fitted(options);
  if (o.verbose)
    for (const RunChange& run : runs) fmt::print("{}", run_text(run, options));
  else
    fmt::print("\n{}{}", brief_runs(runs, screen), brief_operations(runs, screen));
  fmt::print("{}{}", o.verbose ? "\n" : "",
             wrap_lines("noise: the 95% intervals of the medians overlap. ?: a run has fewer "
                        "than 6 samples.",
                        options.columns));
}

}  // namespace

void register_diff(Command program, const AppContext& context) {
  auto options = std::make_shared<DiffOptions>();
  Command app = program.add_subcommand("diff", "Compare two output folders op by op");
  app.add_option("A", options->before, "an output folder of ridge lab, infer-lab, train or import")
      .required();
  app.add_option("B", options->after, "an output folder to compare with A").required();
  app.add_verbose_flag(options->verbose).excludes(app.add_json_flag(options->json));
  app.footer(
      "Examples:\n"
      "  ridge lab --preset tiny --out before\n"
      "  ridge lab --preset tiny --pass -fuse_glu --out after\n"
      "  ridge diff before after");
  app.callback([options, &context] { run(*options, context.terminal); });
}

}  // namespace ridge::apps
