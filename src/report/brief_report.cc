// SPDX-License-Identifier: Apache-2.0
// Sections of a result on one screen. Each figure is one of the whole output.
#include "report/brief_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/units.h"
#include "cost/predict.h"
#include "record/beaten_ceilings.h"
#include "record/operation_table.h"
#include "report/tables.h"

namespace ridge::report {
namespace {

std::string agreement(const record::LabRecord& lab, const record::RunRecord& run) {
  const record::RunRecord& reference = reference_run(lab, run);
  if (run.losses.empty()) return "-";
  if (&reference == &run) return "reference";
  return losses_agree(reference, run) ? "yes" : "NO";
}

std::vector<LadderLine> lines(const record::LabRecord& lab) {
  std::vector<LadderLine> lines = {
      {"step, median", [](const auto& r) { return spread_cell(r.wall()); }},
      {"  predicted",
       [](const auto& r) { return prediction_cell(r.predicted_ns, r.wall().median); }},
      {"speed-up", [&lab](const auto& r) { return fmt::format("{:.2f}x", speed_up(lab, r)); }},
      {"tokens/s", [](const auto& r) { return format_count(r.tokens_per_s()); }},
      {"MFU (PaLM)", [&lab](const auto& r) { return mfu_cell(lab, r); }},
      {"kernel calls per step", [](const auto& r) { return format_integer(r.launches); }},
      {"peak memory, owned", [](const auto& r) { return format_bytes(r.memory.owned_bytes); }},
      {"losses agree", [&lab](const auto& r) { return agreement(lab, r); }},
  };
  const std::vector<LadderLine> phases = phase_lines(lab);
  lines.insert(lines.begin() + 2, phases.begin(), phases.end());
  return lines;
}

std::string ladder(const record::LabRecord& lab,
                   const std::vector<size_t>& runs,
                   const TerminalOptions& options) {
  const record::Setting& s = lab.runs[runs.front()].setting;
  Table table = empty_ladder(
      fmt::format("{}{}, {}{}", terminal_safe(s.model),
                  s.samples() > 0 ? fmt::format(" {}x{}", s.samples(), s.sequence) : "", s.dtype,
                  threads_part(s)),
      lab, runs);
  add_lines(lines(lab), lab, runs, table);
  return table.text(fitted(options));
}

// The last runs, which are the largest.
std::string sweep(const record::LabRecord& lab, const TerminalOptions& options) {
  Table table(
      "batch | length | <level | step, median | predicted ?1 | speed-up | tokens/s | "
      "MFU | owned memory ?2 | <losses agree ?3");
  const size_t hidden = lab.runs.size() > kBriefRuns ? lab.runs.size() - kBriefRuns : 0;
  for (size_t i = hidden; i < lab.runs.size(); ++i) {
    const record::RunRecord& run = lab.runs[i];
    table.add({std::to_string(run.setting.batch_size), std::to_string(run.setting.sequence),
               run.setting.level, spread_cell(run.wall()),
               prediction_cell(run.predicted_ns, run.wall().median),
               fmt::format("{:.2f}x", speed_up(lab, run)), format_count(run.tokens_per_s()),
               mfu_cell(lab, run), format_bytes(run.memory.owned_bytes), agreement(lab, run)});
  }
  std::string text = table.text(fitted(options));
  if (hidden > 0) text += counted(hidden, "more run") + " before these (--verbose)\n";
  return text;
}

// Below a table whose intervals cover less than 95%.
std::string coverage_note(double least, const TerminalOptions& options) {
  if (least >= 0.95) return "";
  return wrap_lines(fmt::format("+-: with fewer than 6 samples, an interval of {:.0f}% instead of "
                                "95%",
                                100 * least),
                    options.columns);
}

double least_coverage(const record::LabRecord& lab) {
  double least = 1;
  for (const record::RunRecord& run : lab.runs)
    if (const Summary wall = run.wall(); wall.count > 1) least = std::min(least, wall.coverage);
  return least;
}

std::string gemm_rate(const record::LabRecord& lab, const cost::Ceilings& c) {
  const DType dtype =
      lab.runs.empty() ? DType::kF32 : record::product_dtype(lab.runs.front().setting);
  const cost::Roof roof = cost::gemm_roof(c, dtype);
  return fmt::format("{} {}", roof.name, format_rate(roof.flops_per_ns * 1e9, "FLOP/s"));
}

std::string roof_text(const record::RoofTime& roof, int64_t all_ns) {
  return fmt::format("{} under {} ({}), at {:.0f}% of it", part_of(roof.time_ns, all_ns), roof.roof,
                     format_rate(roof.per_ns * 1e9, roof.is_memory ? "B/s" : "FLOP/s"),
                     100 * roof.reached());
}

}  // namespace

TerminalOptions fitted(TerminalOptions options) {
  options.fit = true;
  return options;
}

std::string brief_warnings(const std::vector<std::string>& warnings,
                           const TerminalOptions& options) {
  if (warnings.empty()) return "";
  std::string more =
      warnings.size() > 1 ? fmt::format(" ({} more: --verbose)", warnings.size() - 1) : "";
  return wrap_lines(paint("warning: ", Colour::kYellow, options) +
                        terminal_safe(warnings.front(), kLongestMessage) + more,
                    options.columns);
}

std::string brief_heading(const record::LabRecord& lab, const TerminalOptions& options) {
  std::string text;
  if (lab.ceilings) {
    const cost::Ceilings& c = *lab.ceilings;
    text += fmt::format("{}{}{}: memory {}, {} ({})\n", terminal_safe(c.machine.device),
                        c.machine.isa.empty() ? "" : ", ", terminal_safe(c.machine.isa),
                        format_rate(c.memory_bytes_per_ns() * 1e9, "B/s"), gemm_rate(lab, c),
                        terminal_safe(c.source, kLongestMessage));
  }
  if (!lab.runs.empty()) {
    const record::RunRecord& run = lab.runs.front();
    text += fmt::format("{}: {} parameters, {} model FLOPs per step of {} tokens\n",
                        terminal_safe(run.setting.model), format_integer(run.parameters),
                        format_count(static_cast<double>(run.palm_flops())),
                        format_integer(run.setting.tokens()));
  }
  // A screen with warnings has no room for an empty line.
  return wrap_lines(text, options.columns) +
         (lab.warnings.empty() ? "\n" : brief_warnings(lab.warnings, options));
}

std::string brief_ladder(const record::LabRecord& lab, const TerminalOptions& options) {
  const std::vector<std::vector<size_t>> groups = record::ladders(lab);
  if (groups.empty()) return "";
  return (groups.size() == 1 ? ladder(lab, groups.front(), options) : sweep(lab, options)) +
         coverage_note(least_coverage(lab), options);
}

std::string roofline_line(const record::LabRecord& lab,
                          const record::RunRecord& run,
                          const TerminalOptions& options) {
  if (!lab.ceilings) return "";
  const record::RooflineVerdict verdict =
      roofline_verdict(run.step, product_dtype(run.setting), *lab.ceilings);
  if (verdict.roofs.empty()) return "";
  std::string text = "Roofline: ";
  bool is_over = false;
  for (size_t i = 0; i < verdict.roofs.size(); ++i) {
    text += fmt::format("{}{}", i > 0 ? "; " : "", roof_text(verdict.roofs[i], verdict.time_ns));
    is_over |= verdict.roofs[i].reached() > 1;
  }
  if (!verdict.worst.empty())
    text += fmt::format(". Most time beyond its roof: {}, {}", terminal_safe(verdict.worst),
                        format_ns(verdict.worst_ns));
  text += ".";
  if (is_over) text += " Over 100%: operands came from a cache, or the roof is too low.";
  return wrap_lines(text, options.columns);
}

std::string brief_operations(const record::LabRecord& lab,
                             const record::RunRecord& run,
                             const TerminalOptions& options) {
  const record::OperationTable table = table_by_op(run.step, lab.limits());
  if (table.rows.empty()) return "";
  return "\n" +
         brief_operation_table(table, run.step, kBriefOperations, run.setting.str())
             .text(fitted(options)) +
         roofline_line(lab, run, options);
}

std::string brief_advice(const record::LabRecord& lab, const TerminalOptions& options) {
  if (lab.advice.empty())
    return wrap_lines("\nAdvice: no predicted change gains more than the prediction error.",
                      options.columns);
  Table table("<advice | predicted tokens/s | confidence ?2 | owned memory ?1 | <measured");
  auto gain = [](double share) { return fmt::format("{:+.1f}%", 100 * share); };
  for (const record::AdviceRecord& a : lab.advice) {
    std::string measured;
    for (const record::TrialRecord& trial : lab.trials)
      if (trial.advice.command == a.command)
        measured = fmt::format("{}, {}", gain(trial.measured_gain()), trial.verdict());
    table.add({terminal_safe(a.command), gain(a.time_gain),
               a.time_gain > 0 ? confidence_text(a.confidence) : "-", gain(-a.memory_gain),
               measured});
  }
  return "\n" + table.text(fitted(options));
}

namespace {

// The runs that a screen holds: all of them, or those of the first and the last level, or the last.
std::vector<size_t> brief_runs(const record::LabRecord& lab) {
  std::vector<size_t> shown;
  const std::string& first = lab.runs.front().setting.level;
  const std::string& last = lab.runs.back().setting.level;
  for (size_t i = 0; i < lab.runs.size(); ++i)
    if (const std::string& level = lab.runs[i].setting.level;
        lab.runs.size() <= kBriefRuns || level == first || level == last)
      shown.push_back(i);
  if (shown.size() > kBriefRuns)
    shown.erase(shown.begin(), shown.end() - static_cast<std::ptrdiff_t>(kBriefRuns));
  return shown;
}

Table brief_phases(const record::LabRecord& lab, const std::vector<size_t>& shown) {
  Table table(
      "<phase | <level | batch | length | TTFT / TPOT | predicted ?1 | speed-up ?2 | "
      "tokens/s | MFU | MBU");
  for (const size_t i : shown) {
    const record::RunRecord& run = lab.runs[i];
    const bool is_first = &record::reference_run(lab, run) == &run;
    table.add({run.setting.task, run.setting.level, std::to_string(run.setting.batch_size),
               std::to_string(run.setting.sequence), spread_cell(run.wall()),
               prediction_cell(run.predicted_ns, run.wall().median),
               is_first ? "" : fmt::format("{:.2f}x", speed_up(lab, run)),
               format_count(run.tokens_per_s()),
               share_cell(run.mfu(mfu_reference(lab, run.setting))),
               share_cell(run.mbu(mbu_reference(lab)))});
  }
  return table;
}

std::string gains_line(const record::InferenceRecord& study) {
  std::string text;
  for (const record::CacheGainRecord& gain : study.gains)
    text += fmt::format("{} {} and {} at context {} ({})", text.empty() ? "" : ",",
                        format_ns(gain.with.median), format_ns(gain.without.median), gain.context,
                        format_bytes(gain.cache_bytes));
  return text.empty() ? "" : "A token at batch 1 with and without the KV cache:" + text + ".\n";
}

std::string latency_line(const record::InferenceRecord& study) {
  std::string text;
  for (const record::LatencyRecord& each : study.latencies)
    text += fmt::format("{} {} x {} tokens after {} in {}, {} tokens/s", text.empty() ? "" : ";",
                        each.batch, each.tokens, each.prompt, format_ns(each.wall_ns),
                        format_count(each.tokens_per_s()));
  return text.empty() ? "" : "Generated:" + text + ".\n";
}

// The longest length of each head size at which both forms were measured.
std::string attention_line(const record::InferenceRecord& study) {
  std::vector<const record::AttentionRecord*> longest;
  for (const record::AttentionRecord& each : study.attention) {
    if (each.standard.time.count == 0 || each.flash.time.count == 0) continue;
    if (longest.empty() || longest.back()->head_size != each.head_size)
      longest.push_back(&each);
    else
      longest.back() = &each;
  }
  std::string text;
  for (const record::AttentionRecord* each : longest)
    text += fmt::format("{} {:.2f}x (e={}, t={})", text.empty() ? "" : ",",
                        each->standard.time.median / each->flash.time.median, each->head_size,
                        each->sequence);
  return text.empty() ? ""
                      : "Flash over standard attention, by head size and length:" + text + ".\n";
}

}  // namespace

std::string brief_study(const record::InferenceRecord& study, const TerminalOptions& options) {
  if (study.lab.runs.empty()) return "";
  const std::vector<size_t> shown = brief_runs(study.lab);
  std::string text = "\n" + brief_phases(study.lab, shown).text(fitted(options));
  std::string notes;
  if (shown.size() < study.lab.runs.size())
    notes += fmt::format("{} more runs (--verbose)\n", study.lab.runs.size() - shown.size());
  notes += gains_line(study) + latency_line(study) + attention_line(study);
  std::set<std::string> reasons;
  for (const record::RunRecord& run : study.lab.runs) reasons.insert(mbu_reason(study.lab, run));
  reasons.erase("");
  if (!reasons.empty()) notes += fmt::format("MBU over 100%: {}.\n", *reasons.begin());
  if (!study.left_out.empty())
    notes += fmt::format("Skipped: {} parts (--verbose)\n", study.left_out.size());
  return text + coverage_note(least_coverage(study.lab), options) +
         wrap_lines(notes, options.columns);
}

}  // namespace ridge::report
