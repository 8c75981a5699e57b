// SPDX-License-Identifier: Apache-2.0
// Without --verbose, tables are brief.
#include "report/import_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/units.h"
#include "record/operation_table.h"
#include "report/brief_report.h"
#include "report/tables.h"

namespace ridge::report {
namespace {

constexpr size_t kMostRows = 20;
constexpr size_t kMostUnknown = 5;
constexpr size_t kBriefUnknown = 2;

// "128 G FLOPs and 3 MiB per step", of what is counted.
// The part of the time that they refer to, unless that is nearly all of it.
std::string counts_text(const record::RunRecord& run, const record::Attribution& times) {
  std::string text;
  if (run.executed.flops > 0)
    text = fmt::format("{} FLOPs", format_count(static_cast<double>(run.executed.flops)));
  if (run.planned_bytes > 0)
    text += (text.empty() ? "" : " and ") + format_bytes(run.planned_bytes);
  if (text.empty()) return "";
  const double uncounted = times.share(times.uncounted_ns + times.unknown_ns);
  return ", " + text + " per step" +
         (uncounted < 0.05 ? ""
                           : fmt::format(" counted in {:.0f}% of the time", 100 * (1 - uncounted)));
}

std::string run_text(const record::RunRecord& run,
                     const record::Attribution& times,
                     bool verbose,
                     const TerminalOptions& terminal) {
  const size_t count = run.plain_wall_ns.size();
  const std::string text =
      fmt::format("{}: {} of {}{}{}\n", terminal_safe(run.setting.str()), counted(count, "step"),
                  format_ns(static_cast<double>(run.step.wall_ns)), count > 1 ? " (median)" : "",
                  counts_text(run, times));
  const record::OperationTable table = record::table_by_op(run.step, nullptr);
  const std::string rows =
      verbose ? operation_table(table, run.step, kMostRows).text(terminal)
              : brief_operation_table(table, run.step, kBriefOperations, "").text(fitted(terminal));
  return wrap_lines(text, terminal.columns) + "\n" + rows;
}

// The options that would count more.
std::string advice_text(const record::ImportSummary& summary) {
  const record::Attribution& a = summary.times;
  std::string text;
  if (summary.is_of_operations && !a.has_shapes && a.share(a.graph_ns) < 0.5)
    text +=
        "No FLOPs and bytes: the trace has no shapes, which profile(record_shapes=True) records.\n";
  if (a.replayed_ns > 0)
    text += fmt::format(
        "Replayed graphs: {} in kernels of which only the names are known; --capture FILE takes their "
        "operations from a trace of the capture.\n",
        format_ns(static_cast<double>(a.replayed_ns)));
  if (a.compiled_ns > 0)
    text += fmt::format(
        "Compiled code: {} without events; torch._inductor.config.cpp.enable_kernel_profile = True "
        "records its kernels.\n",
        format_ns(static_cast<double>(a.compiled_ns)));
  if (a.outside_kernels > 0)
    text += fmt::format("Of no step: {} of {}, launched before or between the steps.\n",
                        counted(static_cast<size_t>(a.outside_kernels), "kernel"),
                        format_ns(static_cast<double>(a.outside_ns)));
  return text;
}

std::string attribution_text(const record::ImportSummary& summary, bool verbose) {
  const record::Attribution& a = summary.times;
  auto percent = [&](int64_t part_ns) { return fmt::format("{:.1f}%", 100 * a.share(part_ns)); };
  std::vector<std::string> parts = {percent(a.known_ns) + " in operations that Ridge knows"};
  if (a.composite_ns > 0) parts.push_back(percent(a.composite_ns) + " between them in composites");
  if (a.compiled_ns > 0) parts.push_back(percent(a.compiled_ns) + " in compiled code");
  std::string text = fmt::format("Attributed: {:.1f}% of the operations' time ({}).",
                                 100 * a.attributed_share(), fmt::join(parts, ", "));
  if (a.frame_ns > 0) text += fmt::format(" {} is in the framework's frames.", percent(a.frame_ns));
  const bool has_unknown = a.share(a.unknown_ns) >= 0.0005;
  if (has_unknown)
    text += fmt::format(" {} is in operations that Ridge does not know.", percent(a.unknown_ns));
  if (a.share(a.uncounted_ns) >= 0.0005)
    text += fmt::format(" {} has no counted FLOPs and bytes.", percent(a.uncounted_ns));
  text += "\n" + advice_text(summary);
  if (!has_unknown && !verbose) return text;
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
  return run_text(run, summary.times, verbose, terminal) + "\n" +
         wrap_lines(attribution_text(summary, verbose), terminal.columns);
}

}  // namespace ridge::report
