// SPDX-License-Identifier: Apache-2.0
// Prints the kernels of profiled runs.
#include "report/profile_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/units.h"
#include "record/kernel_table.h"
#include "report/bench_table.h"
#include "report/brief_report.h"
#include "report/markdown_report.h"
#include "report/report_page.h"
#include "report/tables.h"

namespace ridge::report {
namespace {

std::string run_text(const record::RunRecord& run, const TerminalOptions& terminal) {
  const record::StepRecord& step = run.step;
  std::string text = "\n" +
                     paint(terminal_safe("Kernels of " + run.setting.str(), kLongestMessage),
                           Colour::kBold, terminal) +
                     "\n\n" + kernel_table(step).text(fitted(terminal));
  text += fmt::format(
      "Of a profiled run of {}, kernels take {} ({}), no kernel runs for {}, and {} are the host's "
      "before and after. Profiled: {}; plain runs between them: {} of {}.\n",
      format_ns(static_cast<double>(step.wall_ns)), format_ns(static_cast<double>(step.busy_ns())),
      part_of(step.busy_ns(), step.wall_ns), format_ns(static_cast<double>(step.idle_ns)),
      format_ns(static_cast<double>(step.host_ns)),
      counted(std::ssize(step.wall_samples_ns), "run"), run.plain_wall_ns.size(),
      format_ns(run.wall().median));
  if (const std::string note = kernel_count_note(step); !note.empty()) text += note + "\n";
  return text;
}

}  // namespace

Table kernel_table(const record::StepRecord& step, size_t most) {
  const std::vector<record::KernelRow> rows = kernel_rows(step);
  const bool has_names = std::ranges::any_of(rows, [](const auto& r) { return r.name != r.op; });
  Table table(has_names ? "<kernel | <op | calls | total | mean | least ?1 | most ?2 | of kernels"
                        : "<kernel | calls | total | mean | least ?1 | most ?2 | of kernels");
  auto add = [&](const record::KernelRow& row, bool is_sum) {
    std::vector<std::string> cells{terminal_safe(row.name, kLongestMessage)};
    if (has_names) cells.push_back(terminal_safe(row.op));
    cells.insert(cells.end(), {format_integer(row.calls), format_ns(row.total_ns),
                               format_ns(row.mean_ns()), is_sum ? "" : format_ns(row.least_ns),
                               is_sum ? "" : format_ns(row.most_ns), percent_cell(row.share)});
    table.add(std::move(cells));
  };
  const bool is_cut = rows.size() > most + 1;
  const size_t shown = is_cut ? most : rows.size();
  for (size_t i = 0; i < shown; ++i) add(rows[i], false);
  if (!is_cut) return table;
  record::KernelRow rest;
  rest.name = fmt::format("({} more)", rows.size() - shown);
  for (size_t i = shown; i < rows.size(); ++i) {
    rest.calls += rows[i].calls;
    rest.total_ns += rows[i].total_ns;
    rest.share += rows[i].share;
  }
  add(rest, true);
  return table;
}

std::string profile_text(const record::LabRecord& lab, const TerminalOptions& terminal) {
  std::string text;
  for (const size_t index : lab.detailed) text += run_text(lab.runs[index], terminal);
  return text + brief_warnings(lab.warnings, fitted(terminal));
}

std::vector<OutputFile> profile_files(record::LabRecord& lab, const record::BenchRecord& bench) {
  if (lab.runs.empty()) return bench_files(lab, bench);
  std::vector<OutputFile> files = record_files(lab);
  files.push_back({"bench.json", std::move(bench_files(lab, bench).front().text)});
  files.push_back({"report.md", markdown_report(lab)});
  files.push_back(page_file(files));
  return files;
}

}  // namespace ridge::report
