// SPDX-License-Identifier: Apache-2.0
// Writes the plan of several ranks.
#include "report/rank_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "base/printable.h"
#include "base/units.h"
#include "report/json_text.h"

namespace ridge::report {
namespace {

std::string flops(double count) { return format_count(count) + "FLOP"; }

// Calls that look the same to a reader, such as those of the layers, are one line.
std::vector<record::PlannedCollective> lines_of(const record::RankPlan& plan) {
  const auto line = [](const record::PlannedCollective& each) {
    return std::tie(each.op, each.group, each.ranks, each.graph, each.bytes, each.sent_bytes);
  };
  std::vector<record::PlannedCollective> lines;
  for (const record::PlannedCollective& each : plan.collectives) {
    const auto found =
        std::ranges::find_if(lines, [&](const auto& known) { return line(known) == line(each); });
    if (found == lines.end())
      lines.push_back(each);
    else
      found->repeat += each.repeat;
  }
  return lines;
}

}  // namespace

std::string rank_plan_text(const record::RankPlan& plan, const TerminalOptions& terminal) {
  Table table(
      "<collective | of | graph ?3 | calls | bytes of each | sent by each rank ?1 | time ?2");
  for (const record::PlannedCollective& each : lines_of(plan)) {
    const double ns = static_cast<double>(each.repeat) * each.predicted_ns;
    table.add({each.op, fmt::format("{} ranks, {}", each.ranks, each.group), each.graph,
               format_integer(each.repeat), format_bytes(each.bytes),
               format_bytes(each.repeat * each.sent_bytes), ns > 0 ? format_ns(ns) : "-"});
  }
  const double repeated = plan.repeated_flops();
  const std::string built =
      fmt::format("{}: the graphs of {} ranks were built one by one; their collectives match.\n",
                  terminal_safe(plan.record.setting.str()), plan.ranks);
  const std::string sums = fmt::format(
      "Each rank sends {} a step and holds {}. All ranks execute {}; one rank would execute {} for "
      "the same sequences, so {} ({:.2f}%) are repeated or add up what was sent.\n",
      format_bytes(plan.sent_bytes()), format_bytes(plan.record.memory.owned_bytes),
      flops(plan.executed_flops), flops(plan.one_rank_flops), flops(repeated),
      100 * repeated / plan.executed_flops);
  std::string waits;
  if (plan.step_ns > 0)
    waits = fmt::format(
        "A step of the {} stages takes {}, predicted; they wait for each other for {:.1f}% of it.\n",
        plan.stages, format_ns(plan.step_ns), 100 * plan.bubble_share);
  return wrap_lines(built, terminal.columns) + table.text(terminal) +
         wrap_lines(sums + waits, terminal.columns);
}

std::string rank_plan_json(const record::RankPlan& plan) { return json_text(to_json(plan)); }

}  // namespace ridge::report
