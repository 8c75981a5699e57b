// SPDX-License-Identifier: Apache-2.0
// Formats the tables of ranks.
#include "report/exchange_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/printable.h"
#include "base/units.h"
#include "report/tables.h"

namespace ridge::report {
namespace {

std::string ranks_table(const record::ExchangeRecord& exchange, const TerminalOptions& terminal) {
  Table table(
      "rank | <host ?1 | step | communication | hidden | exposed | waiting | transfer | late ?3 | "
      "came last ?4 | owned ?5 | peak ?2");
  for (const record::RankTimes& each : exchange.ranks) {
    const auto steps = static_cast<double>(std::max<int64_t>(each.steps, 1));
    const auto cell = [&](int64_t ns) { return format_ns(static_cast<double>(ns) / steps); };
    const auto memory = [](int64_t bytes) { return bytes > 0 ? format_bytes(bytes) : "-"; };
    table.add({std::to_string(each.rank), each.host.empty() ? "-" : terminal_safe(each.host),
               cell(each.step_ns), cell(each.communication_ns), cell(each.overlapped_ns),
               cell(each.exposed_ns()), cell(each.waiting_ns), cell(each.transfer_ns()),
               cell(each.late_ns), format_integer(each.last), memory(each.owned_bytes),
               memory(each.peak_bytes)});
  }
  return table.text(terminal);
}

std::string collectives_table(const record::ExchangeRecord& exchange,
                              const TerminalOptions& terminal) {
  int64_t steps = 1;
  for (const record::RankTimes& each : exchange.ranks) steps = std::max(steps, each.steps);
  Table table(
      "<collective | <group ?4 | ranks ?3 | message | calls ?2 | transfer | waiting | skew ?1 | "
      "bus bandwidth | by the link");
  for (const record::CollectiveTimes& each : exchange.collectives) {
    const auto known = [](bool is_known, const std::string& text) { return is_known ? text : "-"; };
    table.add({terminal_safe(each.op), known(!each.group.empty(), terminal_safe(each.group)),
               std::to_string(each.ranks), known(each.bytes > 0, format_bytes(each.bytes)),
               fmt::format("{:.0f}", static_cast<double>(each.calls) / static_cast<double>(steps)),
               format_ns(each.transfer_ns), format_ns(each.waiting_ns), format_ns(each.skew_ns),
               rate_cell(each.bus_bytes_per_s() / 1e9, "B/s"),
               rate_cell(each.predicted_bytes_per_s() / 1e9, "B/s")});
  }
  return table.text(terminal);
}

}  // namespace

std::string exchange_text(const record::ExchangeRecord& exchange, const TerminalOptions& terminal) {
  if (exchange.ranks.empty()) return "";
  std::string text = ranks_table(exchange, terminal) + "\n";
  if (!exchange.collectives.empty()) text += collectives_table(exchange, terminal) + "\n";
  std::string clock = "Times are of a step. Clocks: " + terminal_safe(exchange.clock);
  if (exchange.clock_error_ns > 0)
    clock += fmt::format(", within {}", format_ns(exchange.clock_error_ns));
  return text + wrap_lines(clock + ".", terminal.columns);
}

}  // namespace ridge::report
