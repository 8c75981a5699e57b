// SPDX-License-Identifier: Apache-2.0
// Sections of report.md.
#include "report/markdown_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/units.h"
#include "record/operation_table.h"
#include "report/json_text.h"
#include "report/profile_report.h"
#include "report/tables.h"

namespace ridge::report {
namespace {

constexpr size_t kMostRows = 25;  // limit for an operation table; operators.csv has all rows

std::string warnings(const record::LabRecord& lab) {
  std::string text = lab.warnings.empty() ? "" : "\n";
  for (const std::string& warning : lab.warnings) text += "**Warning:** " + plain(warning) + "\n";
  return text;
}

std::string ladder_section(const record::LabRecord& lab) {
  std::string text = "\n## The ladder\n";
  std::vector<std::vector<size_t>> groups = record::ladders(lab);
  for (const std::vector<size_t>& group : groups) {
    const record::Setting& s = lab.runs[group.front()].setting;
    const std::string batch =
        s.samples() > 0
            ? fmt::format(", {} of {} tokens", counted(s.samples(), "sequence"), s.sequence)
            : "";
    text += fmt::format("\n{}{}{}{}{}\n\n", plain(s.model), batch, threads_part(s),
                        s.dtype.empty() ? "" : ", " + s.dtype, s.isa.empty() ? "" : " " + s.isa);
    text += table_text(ladder_table(lab, group));
    for (const std::string& note : kernel_count_notes(lab, group))
      text += "\n" + plain(note) + "\n";
  }
  text += fmt::format(
      "\nMFU convention: {}.\nIntervals contain the true median with 95% probability (order "
      "statistics), or with the probability in brackets if there are too few samples. Forward, "
      "backward and optimizer are sums of kernel times.\n",
      plain(mfu_convention(lab)));
  if (lab.has_launch_rate())
    text += fmt::format("Launch rate: {}.\n", plain(record::kLaunchRateConvention));
  if (groups.size() > 1) text += "\n## The sweep\n\n" + table_text(sweep_table(lab));
  return text;
}

std::string advice(const record::LabRecord& lab) {
  if (!lab.seeks_advice) return "";
  std::string text = "\n## Advice\n\n";
  if (lab.advice.empty())
    return text + "No predicted change gains more than the prediction error.\n";
  int number = 0;
  for (const record::AdviceRecord& a : lab.advice)
    text += fmt::format("{}. {} ({}): {}. {}\n", ++number, plain(a.title), code(a.command),
                        gains_text(a), plain(a.reason));
  for (const record::TrialRecord& trial : lab.trials)
    text += fmt::format("\nA run with the advice, {}:\n\n{}", plain(trial.advice.title),
                        table_text(trial_table(trial)));
  return text;
}

}  // namespace

std::string heading_section(const record::LabRecord& lab, std::string_view heading) {
  std::string text = fmt::format("# {}\n\n", heading);
  text += fmt::format("- {}, command {}, {}\n", plain(lab.program), code(lab.command),
                      plain(lab.finished_at));
  if (!lab.ceilings) return text + "- the machine's ceilings are unknown\n" + warnings(lab);
  const cost::Ceilings& c = *lab.ceilings;
  text += fmt::format("- machine: {}; ceilings: {}{}\n", plain(c.machine.str()), plain(c.source),
                      c.measured_at.empty() ? "" : " " + plain(c.measured_at));
  for (const cost::ProductRates& rates : c.products)
    text += fmt::format("- {} GEMMs reach {}\n", rates.name(),
                        format_rate(rates.peak_flops_per_ns * 1e9, "FLOP/s"));
  text +=
      fmt::format("- memory copies reach {}\n", format_rate(c.memory_bytes_per_ns() * 1e9, "B/s"));
  return text + warnings(lab);
}

std::string operations_section(const record::LabRecord& lab, const record::RunRecord& run) {
  std::string text = fmt::format("\n## Operations: {}\n", plain(run.setting.str()));
  text += "\n" + times_note(run) + "\n";
  if (std::string note = kernel_count_note(run.step); !note.empty())
    text += "\n" + plain(note) + "\n";
  if (std::string note = hardware_note(run); !note.empty()) text += "\n" + plain(note) + "\n";
  const cost::Ceilings* limits = lab.limits();
  std::set<std::string> warnings;
  for (const record::OperationTable& table :
       {table_by_op(run.step, limits), table_by_scope(run.step, limits),
        table_by_phase(run.step, limits)}) {
    text += "\n" + table_text(operation_table(table, run.step, kMostRows));
    warnings.insert(table.warnings.begin(), table.warnings.end());
  }
  for (const std::string& warning : warnings) text += "\n**Warning:** " + plain(warning) + "\n";
  if (!run.step.timeline.empty())
    text += "\n### Kernels\n\n" + table_text(kernel_table(run.step, kMostRows));
  text += "\n### Roofline\n\n```\n" + roofline(lab, run, TerminalOptions{}) + "```\n";
  if (run.memory.peak() != nullptr)
    text += "\n### Memory\n\n" + table_text(memory_table(run.memory));
  if (!run.passes.empty()) text += "\n### Passes\n\n" + table_text(pass_table(run.passes));
  return text;
}

std::string markdown_report(const record::LabRecord& lab) {
  std::string text = heading_section(lab, "Ridge lab report");
  text += ladder_section(lab);
  for (size_t index : lab.detailed) text += operations_section(lab, lab.runs[index]);
  return text + advice(lab);
}

std::string plain(std::string_view text) {
  std::string escaped;
  for (char c : terminal_safe(text, kLongestMessage)) {
    if (std::string_view("\\`*_{}[]<>|#").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

// Uses a fence of one more backtick than the longest run of backticks in the text.
std::string code(std::string_view text) {
  std::string safe = terminal_safe(text, kLongestMessage);
  size_t longest = 0, run = 0;
  for (char c : safe) longest = std::max(longest, run = c == '`' ? run + 1 : 0);
  std::string fence(longest + 1, '`');
  return longest > 0 ? fence + " " + safe + " " + fence : fence + safe + fence;
}

// Table escapes the bars; this escapes `<`, so that markup in a cell stays text.
std::string table_text(const Table& table) {
  std::string text;
  for (char c : table.markdown()) text += c == '<' ? std::string("&lt;") : std::string(1, c);
  return text;
}

}  // namespace ridge::report
