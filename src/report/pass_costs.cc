// SPDX-License-Identifier: Apache-2.0
// Writes the cost of a step after each pass.
#include "report/command_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "report/brief_report.h"

namespace ridge::report {
namespace {

// Whether the pass between these two records changes no cost.
bool is_idle(const record::RunRecord& before, const record::RunRecord& after) {
  return before.launches == after.launches && before.executed.flops == after.executed.flops &&
         before.planned_bytes == after.planned_bytes &&
         before.memory.owned_bytes == after.memory.owned_bytes &&
         before.predicted_ns == after.predicted_ns;
}

Table cost_table(std::span<const record::PassCost> costs, bool verbose) {
  Table table(
      "<pass | calls | FLOPs ?1 | bytes ?3 | memory ?2 | predicted | change | "
      "<what it does ?4");
  double before = 0;
  int64_t idle = 0;
  for (size_t i = 0; i < costs.size(); ++i) {
    const record::RunRecord& r = costs[i].planned;
    if (!verbose && i > 0 && is_idle(costs[i - 1].planned, r)) {
      ++idle;
      continue;
    }
    table.add({costs[i].pass.empty() ? "(baseline)" : costs[i].pass, format_integer(r.launches),
               format_count(static_cast<double>(r.executed.flops)), format_bytes(r.planned_bytes),
               format_bytes(r.memory.owned_bytes), format_ns(r.predicted_ns),
               before > 0 ? fmt::format("{:+.1f}%", 100 * (r.predicted_ns / before - 1)) : "",
               costs[i].summary});
    before = r.predicted_ns;
  }
  if (idle > 0)
    table.add({fmt::format("({} without effect)", idle), "", "", "", "", "", "",
               "change no cost of this step (--verbose names them)"});
  return table;
}

}  // namespace

std::string pass_costs_text(std::span<const record::PassCost> costs,
                            const std::string& source,
                            bool verbose,
                            const TerminalOptions& terminal) {
  const record::RunRecord& whole = costs.back().planned;
  // Adapters are work that the rows before their pass do not have.
  const bool is_same_work = std::all_of(costs.begin(), costs.end(), [&](const auto& each) {
    return each.planned.model.step() == whole.model.step();
  });
  return cost_table(costs, verbose).text(verbose ? terminal : fitted(terminal)) + "\n" +
         wrap_lines(
             fmt::format("Model FLOPs per step: {} ({} MACs){}. Executed FLOPs: {}. "
                         "Compulsory bytes: {}.\n"
                         "Each row is the whole step with all passes up to that row. Ceilings: {}.",
                         format_count(static_cast<double>(whole.model.step().flops)),
                         format_count(static_cast<double>(whole.model.step().macs)),
                         is_same_work ? ", the same in every row" : " in the last row",
                         format_count(static_cast<double>(whole.executed.flops)),
                         format_bytes(whole.compulsory_bytes),
                         terminal_safe(source, kLongestMessage)),
             terminal.columns);
}

Json pass_costs_json(std::span<const record::PassCost> costs) {
  return json_list(costs, [](const record::PassCost& each) {
    Json json{{"pass", each.pass}};
    add(json, to_json(each.planned),
        "kernel_calls executed_flops model_flops planned_bytes owned_bytes predicted_ns");
    return json;
  });
}

}  // namespace ridge::report
