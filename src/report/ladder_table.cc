// SPDX-License-Identifier: Apache-2.0
// The ladder of levels, and the sweep over batch sizes and lengths.
#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "report/tables.h"

namespace ridge::report {
namespace {

std::string loss(double value) { return fmt::format("{:.4f}", value); }

std::string agreement(const record::RunRecord& reference, const record::RunRecord& run) {
  if (&reference == &run) return "reference";
  double difference = loss_difference(reference, run);
  return losses_agree(reference, run) ? fmt::format("yes ({:.0e})", difference)
                                      : fmt::format("NO ({:.1e})", difference);
}

std::string prediction(const record::RunRecord& run) {
  return prediction_cell(run.predicted_ns, run.wall().median);
}

std::vector<LadderLine> time_lines(const record::LabRecord& lab) {
  std::vector<LadderLine> lines = {
      {"step, median", [](const auto& r) { return time_cell(r.wall()); }},
      {"95% interval", [](const auto& r) { return interval_cell(r.wall()); }},
      {"step, predicted", prediction},
      {"speed-up", [&lab](const auto& r) { return fmt::format("{:.2f}x", speed_up(lab, r)); }},
      {"samples/s", [](const auto& r) { return format_count(r.samples_per_s()); }},
      {"tokens/s", [](const auto& r) { return format_count(r.tokens_per_s()); }},
      {"kernel calls per step", [](const auto& r) { return format_integer(r.launches); }},
      {"  kernels profiled",
       [](const auto& r) { return format_integer(kernels_profiled(r.step)); }}};
  const std::vector<LadderLine> phases = phase_lines(lab);
  lines.insert(lines.begin() + 2, phases.begin(), phases.end());
  if (lab.has_launch_rate())
    lines.push_back({"launch rate", [](const auto& r) {
                       return r.launch_rate().count > 0 ? percent_cell(r.launch_rate().median)
                                                        : "-";
                     }});
  return lines;
}

std::vector<LadderLine> share_lines(const record::LabRecord& lab) {
  return {
      {"model FLOP/s", [](const auto& r) { return format_rate(r.palm_flops_per_s(), "FLOP/s"); }},
      {"MFU (PaLM)", [&lab](const auto& r) { return mfu_cell(lab, r); }},
      {"bytes moved per step", [](const auto& r) { return format_bytes(r.planned_bytes); }},
      {"peak memory, owned", [](const auto& r) { return format_bytes(r.memory.owned_bytes); }},
      {"  predicted resident",
       [](const auto& r) { return format_bytes(r.memory.predicted_peak_bytes()); }},
      {"  measured resident",
       [](const auto& r) { return format_bytes(r.memory.after.peak_bytes); }}};
}

// Imported runs have none.
std::vector<LadderLine> loss_lines(const record::LabRecord& lab) {
  return {{"loss, first", [](const auto& r) { return loss(r.losses.front()); }},
          {"loss, last", [](const auto& r) { return loss(r.losses.back()); }},
          {"loss, mean", [](const auto& r) { return loss(r.mean_loss()); }},
          {"losses agree", [&lab](const auto& r) { return agreement(reference_run(lab, r), r); }}};
}

std::vector<LadderLine> part_lines() {
  return {{"busy", [](const auto& r) { return part_of(r.step.busy_ns(), r.step.wall_ns); }},
          {"  computing",
           [](const auto& r) { return part_of(r.step.exclusive_ns(true), r.step.wall_ns); }},
          {"  moving data",
           [](const auto& r) { return part_of(r.step.exclusive_ns(false), r.step.wall_ns); }},
          {"idle before the first kernel",
           [](const auto& r) { return part_of(r.step.idle_before_first_ns, r.step.wall_ns); }},
          {"gaps",
           [](const auto& r) {
             return part_of(r.step.idle_ns - r.step.idle_before_first_ns, r.step.wall_ns);
           }},
          {"host", [](const auto& r) { return part_of(r.step.host_ns, r.step.wall_ns); }},
          {"profiling overhead, counted",
           [](const auto& r) {
             return r.clock_ns > 0 ? fmt::format("{:.3f}%", 100 * r.clock_cost()) : "-";
           }},
          {"  measured", [](const auto& r) { return profiling_cost(r); }},
          {"  whole run", [](const auto& r) { return profiling_cost_of_run(r); }}};
}

// Whether a line says nothing of runs of another program, which has no levels, memory and
// measurements of Ridge.
bool is_void(const std::vector<std::string>& cells) {
  return std::all_of(cells.begin() + 1, cells.end(), [](const std::string& cell) {
    return cell == "-" || cell == "0.0" || cell == "0 B" || cell == "0.0%" || cell == "+0.0%" ||
           cell == "1.00x";
  });
}

}  // namespace

std::string mfu_cell(const record::LabRecord& lab, const record::RunRecord& run) {
  const cost::ReferenceRate peak = mfu_reference(lab, run.setting);
  return peak.per_ns > 0 ? percent_cell(run.mfu(peak)) : "-";
}

std::string part_of(int64_t part_ns, int64_t wall_ns) {
  return wall_ns > 0 ? percent_cell(static_cast<double>(part_ns) / static_cast<double>(wall_ns))
                     : "-";
}

std::string percent_cell(double share) { return fmt::format("{:.1f}%", 100 * share); }

std::string share_cell(double share) { return share > 0 ? percent_cell(share) : "-"; }

std::string rate_cell(double per_ns, const char* unit) {
  return per_ns > 0 ? format_rate(per_ns * 1e9, unit) : "-";
}

std::string time_cell(const Summary& s) { return s.count == 0 ? "-" : format_ns(s.median); }

std::string interval_cell(const Summary& s) {
  if (s.count < 2) return "-";
  std::string text = fmt::format("{} - {}", format_ns(s.low), format_ns(s.high));
  // With too few samples for 95%, show the interval's coverage.
  return s.coverage < 0.95 ? fmt::format("{} ({:.0f}%)", text, 100 * s.coverage) : text;
}

std::vector<LadderLine> phase_lines(const record::LabRecord& lab) {
  std::vector<LadderLine> lines = {
      {"  forward", [](const auto& r) { return time_cell(r.step.forward); }},
      {"  backward", [](const auto& r) { return time_cell(r.step.backward); }},
      {"  optimizer", [](const auto& r) { return time_cell(r.step.optimizer); }}};
  if (std::ranges::any_of(lab.runs, [](const auto& run) { return run.step.overlapped_ns > 0; }))
    lines.push_back({"  overlap", [](const auto& r) {
                       const int64_t ns = r.step.overlapped_ns;
                       return ns > 0 ? "-" + format_ns(static_cast<double>(ns)) : "-";
                     }});
  return lines;
}

std::string prediction_cell(double predicted_ns, double measured_ns) {
  if (!(predicted_ns > 0)) return "-";
  if (!(measured_ns > 0)) return format_ns(predicted_ns);
  return fmt::format("{} ({:+.1f}%)", format_ns(predicted_ns),
                     100 * (predicted_ns / measured_ns - 1));
}

std::string spread_cell(const Summary& s) {
  if (s.count < 2) return time_cell(s);
  const double percent = 100 * s.spread();
  return fmt::format("{} +-{:.{}f}%", format_ns(s.median), percent, percent < 10 ? 1 : 0);
}

std::string profiling_cost(const record::RunRecord& run) {
  const Summary cost = run.profiling_cost();
  if (cost.count == 0) return "-";
  const std::string median = fmt::format("{:+.1f}%", 100 * cost.median);
  if (cost.count < 2) return median;
  return fmt::format("{} ({:+.1f}% - {:+.1f}%)", median, 100 * cost.low, 100 * cost.high);
}

std::string profiling_cost_of_run(const record::RunRecord& run) {
  if (run.step.wall_samples_ns.empty()) return "-";
  return fmt::format("{:+.1f}%", 100 * run.profiling_cost_of_run());
}

Table empty_ladder(const std::string& title,
                   const record::LabRecord& lab,
                   std::span<const size_t> runs) {
  std::vector<Table::Column> columns{{title, Align::kLeft}};
  // The first level is the reference and the last the fastest; the ones between can be left out.
  for (size_t i = 0; i < runs.size(); ++i)
    columns.push_back({lab.runs[runs[i]].setting.level, Align::kRight,
                       i + 1 == runs.size() ? 0 : static_cast<int>(i)});
  return Table(std::move(columns));
}

void add_lines(const std::vector<LadderLine>& lines,
               const record::LabRecord& lab,
               std::span<const size_t> runs,
               Table& table) {
  const bool are_of_another =
      std::ranges::all_of(runs, [&](size_t run) { return is_of_another_program(lab.runs[run]); });
  for (const LadderLine& line : lines) {
    std::vector<std::string> cells{line.label};
    for (size_t run : runs) cells.push_back(line.cell(lab.runs[run]));
    if (!are_of_another || !is_void(cells)) table.add(std::move(cells));
  }
}

Table ladder_table(const record::LabRecord& lab, std::span<const size_t> runs) {
  Table table = empty_ladder("", lab, runs);
  auto add = [&](const std::vector<LadderLine>& lines) { add_lines(lines, lab, runs, table); };
  add(time_lines(lab));
  table.add_rule();
  add(share_lines(lab));
  if (std::ranges::none_of(runs, [&](size_t run) { return lab.runs[run].losses.empty(); }))
    add(loss_lines(lab));
  add(part_lines());
  return table;
}

Table sweep_table(const record::LabRecord& lab) {
  Table table(
      "batch | length | <level | step | 95% interval ?3 | predicted ?2 | samples/s ?5 | "
      "tokens/s | speed-up | owned memory ?1 | MFU | mean loss ?4");
  const record::RunRecord* last = nullptr;
  for (const record::RunRecord& run : lab.runs) {
    const record::RunRecord* first = &reference_run(lab, run);
    if (last != nullptr && first != last) table.add_rule();
    last = first;
    table.add({std::to_string(run.setting.batch_size), std::to_string(run.setting.sequence),
               run.setting.level, time_cell(run.wall()), interval_cell(run.wall()), prediction(run),
               format_count(run.samples_per_s()), format_count(run.tokens_per_s()),
               fmt::format("{:.2f}x", speed_up(lab, run)), format_bytes(run.memory.owned_bytes),
               mfu_cell(lab, run), loss(run.mean_loss())});
  }
  return table;
}

}  // namespace ridge::report
