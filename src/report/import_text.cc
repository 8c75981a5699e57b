// SPDX-License-Identifier: Apache-2.0
// Without --verbose, tables are brief.
#include "report/import_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "record/operation_table.h"
#include "report/brief_report.h"
#include "report/tables.h"

namespace ridge::report {
namespace {

constexpr size_t kMostRows = 20;
constexpr size_t kMostUnknown = 5;
constexpr size_t kBriefUnknown = 2;

std::string run_text(const record::RunRecord& run, bool verbose, const TerminalOptions& terminal) {
  const Summary step = run.wall();
  const std::string counts =
      run.executed == Work() && run.planned_bytes == 0
          ? ""
          : fmt::format(", {} FLOPs and {} per step",
                        format_count(static_cast<double>(run.executed.flops)),
                        format_bytes(run.planned_bytes));
  const std::string text = fmt::format("{}: {} of {}{}\n", terminal_safe(run.setting.str()),
                                       counted(step.count, "step"), format_ns(step.median), counts);
  const record::OperationTable table = record::table_by_op(run.step, nullptr);
  const std::string rows =
      verbose ? operation_table(table, run.step, kMostRows).text(terminal)
              : brief_operation_table(table, run.step, kBriefOperations, run.setting.str())
                    .text(fitted(terminal));
  return wrap_lines(text, terminal.columns) + "\n" + rows;
}

std::string attribution_text(const record::ImportSummary& summary, bool verbose) {
  const record::Attribution& a = summary.times;
  auto percent = [&](int64_t part_ns) { return fmt::format("{:.1f}%", 100 * a.share(part_ns)); };
  std::string text = fmt::format(
      "Attributed: {:.1f}% of the operations' time ({} in operations that Ridge knows, {} between "
      "them in composites). {} is in the framework's frames, {} in unknown operations. {} has no "
      "recorded FLOPs and bytes.\n",
      100 * a.attributed_share(), percent(a.known_ns), percent(a.composite_ns), percent(a.frame_ns),
      percent(a.unknown_ns), percent(a.uncounted_ns));
  const size_t most = verbose ? kMostUnknown : kBriefUnknown;
  for (size_t i = 0; i < std::min(summary.unknown.size(), most); ++i)
    text += fmt::format("  unknown: {} {}\n", format_ns(static_cast<double>(summary.unknown[i].ns)),
                        terminal_safe(summary.unknown[i].name));
  if (summary.unknown.size() > most)
    text += fmt::format("  and {} more (import.json)\n", summary.unknown.size() - most);
  return text;
}

}  // namespace

std::string import_text(const record::ImportSummary& summary,
                        const record::RunRecord& run,
                        bool verbose,
                        const TerminalOptions& terminal) {
  return run_text(run, verbose, terminal) + "\n" +
         wrap_lines(attribution_text(summary, verbose), terminal.columns);
}

}  // namespace ridge::report
