// SPDX-License-Identifier: Apache-2.0
// Sections for the terminal.
#include "report/brief_report.h"

#include <fmt/format.h>

#include <set>

#include "base/units.h"
#include "record/operation_table.h"
#include "report/json_text.h"
#include "report/tables.h"

namespace ridge::report {
namespace {

constexpr size_t kMostRows = 20;  // limit for an operation table; operators.csv has all rows

std::string title(const std::string& text, const TerminalOptions& options) {
  std::string lines = wrap_lines(text, options.columns);
  lines.pop_back();
  return "\n" + paint(lines, Colour::kBold, options) + "\n\n";
}

std::string warning(const std::string& text, const TerminalOptions& options) {
  return wrap_lines(
      paint("warning: ", Colour::kYellow, options) + terminal_safe(text, kLongestMessage),
      options.columns);
}

}  // namespace

std::string heading_text(const record::LabRecord& lab, const TerminalOptions& options) {
  std::string text;
  if (lab.ceilings) {
    const cost::Ceilings& c = *lab.ceilings;
    text += fmt::format("machine   {}\n", terminal_safe(c.machine.str()));
    text += fmt::format("ceilings  memory {}", format_rate(c.memory_bytes_per_ns() * 1e9, "B/s"));
    if (const cost::Roof vector = cost::vector_roof(c); vector.flops_per_ns > 0)
      text += fmt::format(", {} {}", vector.name, format_rate(vector.flops_per_ns * 1e9, "FLOP/s"));
    for (const cost::ProductRates& rates : c.products)
      text += fmt::format(", {} GEMM {}", rates.name(),
                          format_rate(rates.peak_flops_per_ns * 1e9, "FLOP/s"));
    text += fmt::format(" ({})\n", terminal_safe(c.source, kLongestMessage));
  }
  if (lab.runs.empty()) return wrap_lines(text, options.columns);
  const record::RunRecord& run = lab.runs.front();
  text += fmt::format("model     {}: {} parameters, {} model FLOPs per step of {} tokens\n",
                      terminal_safe(run.setting.model), format_integer(run.parameters),
                      format_count(static_cast<double>(run.palm_flops())),
                      format_integer(run.setting.tokens()));
  text = wrap_lines(text, options.columns);
  for (const std::string& each : lab.warnings) text += warning(each, options);
  return text;
}

std::string ladder_text(const record::LabRecord& lab, const TerminalOptions& options) {
  std::string text;
  std::vector<std::vector<size_t>> groups = record::ladders(lab);
  for (const std::vector<size_t>& group : groups) {
    const record::Setting& s = lab.runs[group.front()].setting;
    const std::string batch =
        s.samples() > 0 ? fmt::format("batch {}, length {}, ", s.samples(), s.sequence) : "";
    text +=
        title(fmt::format("{}: {}{}{}", terminal_safe(s.model), batch, s.dtype, threads_part(s)),
              options);
    text += ladder_table(lab, group).text(options);
    for (const std::string& note : kernel_count_notes(lab, group))
      text += wrap_lines(note, options.columns);
  }
  text += "\n" + wrap_lines(fmt::format("MFU: {}.", mfu_convention(lab)), options.columns);
  if (lab.has_launch_rate())
    text +=
        wrap_lines(fmt::format("Launch rate: {}.", record::kLaunchRateConvention), options.columns);
  if (groups.size() > 1) text += title("Sweep", options) + sweep_table(lab).text(options);
  return text;
}

std::string operations_text(const record::LabRecord& lab,
                            const record::RunRecord& run,
                            const TerminalOptions& options) {
  std::string text;
  std::set<std::string> warnings;
  const cost::Ceilings* limits = lab.limits();
  const std::string name = terminal_safe(run.setting.str());
  for (const record::OperationTable& table :
       {table_by_op(run.step, limits), table_by_scope(run.step, limits),
        table_by_phase(run.step, limits)}) {
    text += title(fmt::format("{}: by {}", name, table.title), options);
    text += operation_table(table, run.step, kMostRows).text(options);
    warnings.insert(table.warnings.begin(), table.warnings.end());
    if (table.title == "op" && limits != nullptr && table.total.time_ns > 0 &&
        !side_by_side(run.step))
      text += "\n" + wrap_lines(fmt::format(
                                    "Predictions: total absolute error {:.1f}% of the kernel time.",
                                    100 * record::total_absolute_error(table)),
                                options.columns);
  }
  std::string notes = times_note(run) + "\n";
  if (std::string note = kernel_count_note(run.step); !note.empty()) notes += note + "\n";
  if (run.step.dropped > 0) notes += fmt::format("{} records were dropped.\n", run.step.dropped);
  if (std::string note = hardware_note(run); !note.empty()) notes += note + "\n";
  text += "\n" + wrap_lines(notes, options.columns);
  for (const std::string& each : warnings) text += warning(each, options);
  text += title(fmt::format("{}: roofline", name), options) + roofline(lab, run, options);
  text += title(fmt::format("{}: memory", name), options) + memory_table(run.memory).text(options);
  return text;
}

std::string advice_text(const record::LabRecord& lab, const TerminalOptions& options) {
  std::string text = title("Advice", options);
  if (lab.advice.empty())
    return text +
           wrap_lines("No predicted change gains more than the prediction error.", options.columns);
  int number = 0;
  for (const record::AdviceRecord& a : lab.advice) {
    text += wrap_lines(fmt::format("{}. {} ({}): {}", ++number, terminal_safe(a.title),
                                   terminal_safe(a.command, kLongestMessage), gains_text(a)),
                       options.columns);
    text += paint(wrap_lines(terminal_safe(a.reason, kLongestMessage), options.columns, "   "),
                  Colour::kDim, options);
  }
  return text;
}

std::string trials_text(const record::LabRecord& lab, const TerminalOptions& options) {
  std::string text;
  for (const record::TrialRecord& trial : lab.trials)
    text += title("A run with the advice: " + terminal_safe(trial.advice.title), options) +
            trial_table(trial).text(options);
  return text;
}

std::string lab_text(const record::LabRecord& lab, bool verbose, const TerminalOptions& options) {
  const std::vector<const record::RunRecord*> detailed = record::detailed_at_first_point(lab);
  if (!verbose)
    return brief_heading(lab, options) + brief_ladder(lab, options) +
           brief_operations(lab, *detailed.back(), options);
  std::string text = heading_text(lab, options) + ladder_text(lab, options);
  for (const record::RunRecord* run : detailed) text += operations_text(lab, *run, options);
  return text;
}

std::string warning_lines(const record::LabRecord& lab,
                          size_t from,
                          const TerminalOptions& options) {
  std::string text;
  for (size_t i = from; i < lab.warnings.size(); ++i)
    text +=
        wrap_lines("warning: " + terminal_safe(lab.warnings[i], kLongestMessage), options.columns);
  return text;
}

}  // namespace ridge::report
