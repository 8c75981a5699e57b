// SPDX-License-Identifier: Apache-2.0
// Writes a summary file's results as text or JSON.
#include "report/command_text.h"

#include <fmt/format.h>

#include "base/units.h"
#include "report/brief_report.h"
#include "report/tables.h"

namespace ridge::report {
namespace {

// The `most` largest operations; 0: all.
std::string run_text(const record::SummaryRun& run, size_t most, const TerminalOptions& options) {
  const std::string name = terminal_safe(run.setting.str());
  Table table =
      Table::titled(most == 0 ? "op" : "op of " + name,
                    "calls ?3 | time | share | rate ?1 | bandwidth ?2 | <bound | possible gain");
  const bool is_cut = most > 0 && run.by_op.size() > most + 1;
  for (size_t i = 0; i < (is_cut ? most : run.by_op.size()); ++i) {
    const record::SummaryOperation& op = run.by_op[i];
    table.add({terminal_safe(op.key), format_integer(op.calls), format_ns(op.time_ns),
               fmt::format("{:.1f}%", 100 * op.share), rate_cell(op.flops_per_s / 1e9, "FLOP/s"),
               rate_cell(op.bytes_per_s / 1e9, "B/s"), terminal_safe(op.bound),
               op.predicted_ns > 0 ? format_ns(op.possible_gain_ns()) : "-"});
  }
  if (is_cut) {
    double ns = 0, share = 0;
    int64_t calls = 0;
    for (size_t i = most; i < run.by_op.size(); ++i) {
      calls += run.by_op[i].calls;
      ns += run.by_op[i].time_ns;
      share += run.by_op[i].share;
    }
    table.add({fmt::format("({} more)", run.by_op.size() - most), format_integer(calls),
               format_ns(ns), fmt::format("{:.1f}%", 100 * share)});
  }
  return "\n" + (most == 0 ? wrap_lines(name, options.columns) + "\n" : "") + table.text(options);
}

Json run_json(const record::SummaryRun& run) {
  Json json = to_json(run,
                      "setting step predicted_step_ns speed_up kernel_calls samples_per_s "
                      "tokens_per_s mfu");
  json["owned_bytes"] = run.owned_bytes;
  json["measured_peak_bytes"] = run.measured_peak_bytes;
  if (run.mean_loss) json["loss"] = {{"mean", *run.mean_loss}, {"agrees", run.losses_agree}};
  for (const record::SummaryOperation& op : run.by_op) {
    json["by_op"].push_back(to_json(op));
    json["by_op"].back().erase("samples");
  }
  return json;
}

std::string advice_text(const record::SummaryFile& summary,
                        bool verbose,
                        const TerminalOptions& options) {
  std::string text;
  for (const record::SummaryAdvice& advice : summary.advice) {
    if (verbose || &advice == &summary.advice.front()) text += "\n";
    text +=
        wrap_lines(fmt::format("advice: {} ({}), predicted {:+.1f}%{}", terminal_safe(advice.title),
                               terminal_safe(advice.command, kLongestMessage), 100 * advice.gain,
                               verbose ? ": " + terminal_safe(advice.reason, kLongestMessage) : ""),
                   options.columns);
  }
  if (!verbose) return text + brief_warnings(summary.warnings, options);
  for (const std::string& each : summary.warnings)
    text += wrap_lines("warning: " + terminal_safe(each, kLongestMessage), options.columns);
  return text;
}

}  // namespace

std::string summary_text(const record::SummaryFile& summary,
                         bool verbose,
                         const TerminalOptions& terminal) {
  const TerminalOptions options = verbose ? terminal : fitted(terminal);
  std::string text =
      wrap_lines(fmt::format("{} on {}, {}", terminal_safe(summary.command, kLongestMessage),
                             device_name(summary), terminal_safe(summary.finished_at)),
                 options.columns) +
      "\n";
  Table table(
      "<run | step | 95% interval ?3 | predicted ?2 | speed-up | calls ?6 | "
      "tokens/s ?4 | MFU | memory ?5 | mean loss ?7 | <losses agree ?1");
  const size_t all = summary.runs.size();
  const size_t hidden = verbose || all <= kBriefRuns ? 0 : all - kBriefRuns;
  for (size_t i = hidden; i < all; ++i) {
    const record::SummaryRun& run = summary.runs[i];
    table.add({terminal_safe(run.setting.str()), format_ns(run.step.median),
               interval_cell(run.step), run.predicted_ns > 0 ? format_ns(run.predicted_ns) : "-",
               fmt::format("{:.2f}x", run.speed_up), format_integer(run.kernel_calls),
               run.tokens_per_s > 0 ? format_count(run.tokens_per_s) : "-", share_cell(run.mfu),
               run.measured_peak_bytes > 0 ? format_bytes(run.measured_peak_bytes) : "-",
               run.mean_loss ? fmt::format("{:.4f}", *run.mean_loss) : "-",
               !run.mean_loss     ? "-"
               : run.losses_agree ? "yes"
                                  : "NO"});
  }
  text += table.text(options);
  if (hidden > 0) text += counted(hidden, "more run") + " before these (--verbose)\n";
  const record::SummaryRun* last = nullptr;
  for (const record::SummaryRun& run : summary.runs)
    if (!run.by_op.empty()) {
      last = &run;
      if (verbose) text += run_text(run, 0, options);
    }
  if (!verbose && last != nullptr) text += run_text(*last, kBriefOperations, options);
  return text + advice_text(summary, verbose, options);
}

Json summary_json(const record::SummaryFile& summary) {
  Json json = {{"program", summary.program},
               {"command", summary.command},
               {"finished_at", summary.finished_at},
               {"device", summary.device},
               {"runs", Json::array()},
               {"advice", value_json(summary.advice)},
               {"warnings", summary.warnings}};
  for (const record::SummaryRun& run : summary.runs) json["runs"].push_back(run_json(run));
  return json;
}

}  // namespace ridge::report
