// SPDX-License-Identifier: Apache-2.0
// A prefill is compared with multiplications, a decode step with reading.
#include "report/rate_shares.h"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "report/tables.h"

namespace ridge::report {
namespace {

// The sentence about one kind of reasons, if there are any.
std::string over(const char* what, const std::set<std::string>& reasons) {
  return reasons.empty() ? "" : fmt::format(" {} over 100%: {}.", what, fmt::join(reasons, "; "));
}

}  // namespace

std::vector<std::string> shares_cells(const record::RateShares& s, bool is_decode) {
  if (is_decode)
    return {"",
            "",
            "",
            rate_cell(s.bytes_per_ns, "B/s"),
            share_cell(s.of_reads),
            share_cell(s.of_read_and_unpack),
            rate_cell(s.unpack_bytes_per_ns, "B/s")};
  return {rate_cell(s.ops_per_ns, "op/s"), share_cell(s.of_theoretical), share_cell(s.of_multiply)};
}

std::string shares_note(const std::vector<record::PhaseShares>& all,
                        const cost::Ceilings& ceilings) {
  std::string text;
  for (const cost::MultiplyRates& each : ceilings.multiplies) {
    if (ceilings.multiply_rates(each.dtype) != &each) continue;
    text +=
        fmt::format("{}{} {}, {}", text.empty() ? "Multiply-only: " : "; ", name(each.dtype),
                    rate_cell(each.multiply_ops_per_ns, "op/s"), terminal_safe(each.instruction));
    if (each.theoretical_ops_per_ns > 0)
      text += fmt::format(" (theoretical: {})", rate_cell(each.theoretical_ops_per_ns, "op/s"));
  }
  text +=
      fmt::format("{}MBU: {}. Limit of a decode: the slower of reading and unpacking each weight.",
                  text.empty() ? "" : ". ", ceilings.mbu_reference().str("B/s", ""));
  std::set<std::string> multiplies, reads;
  for (const record::PhaseShares& each : all) {
    if (each.is_decode)
      reads.insert(each.shares.read_reason);
    else
      multiplies.insert(each.shares.multiply_reason);
  }
  multiplies.erase("");
  reads.erase("");
  return text + over("Shares of multiplications", multiplies) + over("Shares of reading", reads);
}

}  // namespace ridge::report
