// SPDX-License-Identifier: Apache-2.0
// Writes latencies, rates and errors.
#include "report/load.h"

#include <fmt/format.h>

#include "base/units.h"

namespace ridge::report {
namespace {

std::string loop_of(const record::LoadSummary& s) {
  return s.rate > 0 ? fmt::format("open loop, {} requests/s (Poisson)", s.rate)
                    : fmt::format("closed loop, {} client{}", s.clients, s.clients == 1 ? "" : "s");
}

std::string table_text(const record::LoadSummary& s, const TerminalOptions& terminal) {
  Table table("<latency | mean | p50 | p90 | p99 | count");
  const auto add = [&](const char* name, const record::Percentiles& p) {
    if (p.count == 0) return table.add({name, "-", "-", "-", "-", "0"});
    table.add({name, format_ns(p.mean), format_ns(p.p50), format_ns(p.p90), format_ns(p.p99),
               format_integer(p.count)});
  };
  add("first token (TTFT)", s.ttft);
  add("later token (TPOT)", s.tpot);
  add("between pieces (ITL)", s.itl);
  add("whole request", s.e2e);
  return table.text(terminal);
}

}  // namespace

Json load_json(const record::LoadSummary& s) {
  Json json = to_json(s);
  json["errors"] = Json::object();
  if (!s.slo.empty()) {
    json["within_slo"] = s.kept;
    json["goodput_requests_per_s"] = s.per_s(s.kept);
  }
  for (const auto& [error, count] : s.errors) json["errors"][error] = count;
  return json;
}

std::string load_text(const record::LoadSummary& s, const TerminalOptions& terminal) {
  std::string text = wrap_lines(fmt::format("{} at {}: {}, prompts of {} words, {} tokens each",
                                            terminal_safe(s.model), terminal_safe(s.url),
                                            loop_of(s), s.prompt, s.output),
                                terminal.columns) +
                     "\n" + table_text(s, terminal) + "\n";
  text += fmt::format(
      "{} requests in {}, {} failed: {:.2f} requests/s, {:.1f} output tokens/s, {:.1f} prompt "
      "tokens/s\n",
      format_integer(s.completed), format_ns(s.wall_ns), format_integer(s.failed),
      s.per_s(s.completed), s.per_s(s.output_tokens), s.per_s(s.prompt_tokens));
  const int64_t all = s.completed + s.failed;
  if (!s.slo.empty() && all > 0)
    text +=
        fmt::format("goodput under {}: {:.2f} requests/s ({:.0f}% of requests)\n", s.slo,
                    s.per_s(s.kept), 100 * static_cast<double>(s.kept) / static_cast<double>(all));
  for (const auto& [error, count] : s.errors)
    text += fmt::format("failed {} times: {}\n", count, terminal_safe(error, kLongestMessage));
  return text;
}

}  // namespace ridge::report
