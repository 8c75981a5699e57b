// SPDX-License-Identifier: Apache-2.0
// Writes a bench of a whole model.
#include "report/model_bench.h"

#include <fmt/format.h>

#include "base/units.h"
#include "record/rate_shares.h"
#include "report/operators_csv.h"
#include "report/rate_shares.h"

namespace ridge::report {
namespace {

constexpr size_t kBriefRows = 8;

std::string table_text(const Table& table, const TerminalOptions& terminal, bool is_markdown) {
  return (is_markdown ? table.markdown() : table.text(terminal)) + "\n";
}

Json trial_json(const record::ModelTrial& t) {
  Json json = to_json(t);
  json["rate_shares"] = to_json(record::PhaseShares{t.is_decode, t.shares});
  return json;
}

std::string rates_text(const record::ModelBenchRecord& bench,
                       const TerminalOptions& terminal,
                       bool is_markdown) {
  Table table(
      "<model | size ?3 | params ?4 | <device ?1 | threads ?2 | test | tokens/s | "
      "95% interval");
  for (const record::ModelTrial& t : bench.trials) {
    const Summary s = t.summary();
    const std::string coverage =
        s.coverage < 0.95 ? fmt::format(" ({:.0f}%)", 100 * s.coverage) : "";
    table.add({terminal_safe(bench.setting.model), format_bytes(bench.size_bytes),
               format_count(static_cast<double>(bench.parameters)),
               terminal_safe(bench.setting.device) + " " + terminal_safe(bench.setting.isa),
               std::to_string(bench.setting.threads), t.name, fmt::format("{:.2f}", s.median),
               s.count < 2 ? "-" : fmt::format("{:.2f} - {:.2f}{}", s.low, s.high, coverage)});
  }
  return table_text(table, terminal, is_markdown);
}

std::string shares_text(const record::ModelBenchRecord& bench,
                        const TerminalOptions& terminal,
                        bool is_markdown) {
  Table table = Table::titled("test", kSharesColumns);
  std::vector<record::PhaseShares> all;
  for (const record::ModelTrial& t : bench.trials) {
    all.push_back({t.is_decode, t.shares});
    std::vector<std::string> cells = shares_cells(t.shares, t.is_decode);
    cells.insert(cells.begin(), t.name);
    table.add(std::move(cells));
  }
  std::string text = "\n" + table_text(table, terminal, is_markdown) +
                     wrap_lines(shares_note(all, bench.ceilings), terminal.columns);
  for (const record::ModelTrial& t : bench.trials)
    if (t.of_beside > 0)
      text += wrap_lines(
          fmt::format("{}: {:.1f}% of what reading {} of memory reached between the repeats ({}).",
                      t.name, 100 * t.of_beside, format_bytes(t.beside_bytes),
                      format_rate(t.beside_bytes_per_ns * 1e9, "B/s")),
          terminal.columns);
  return text;
}

}  // namespace

Json model_bench_json(const record::ModelBenchRecord& bench) {
  Json json = to_json(bench);
  json["multiply_share_convention"] = record::kMultiplyShareConvention;
  json["read_share_convention"] = record::kReadShareConvention;
  for (const record::ModelTrial& t : bench.trials) json["tests"].push_back(trial_json(t));
  return json;
}

std::string model_bench_csv(const record::ModelBenchRecord& bench) {
  constexpr std::string_view kColumns =
      "model size_bytes parameters device isa threads batch test tokens_per_s:.3f low:.3f high:.3f "
      "coverage:.4f samples ops_per_s:.6g of_theoretical:.6g of_multiply_only:.6g bytes_per_s:.6g "
      "mbu:.6g of_unpack_or_read:.6g read_beside_bytes_per_s:.6g of_read_beside:.6g";
  std::string text = csv_header(kColumns) + "\n";
  const Json whole = model_bench_json(bench);
  for (const record::ModelTrial& t : bench.trials) {
    Json line = whole;
    line.update(trial_json(t));
    line.update(to_json(record::PhaseShares{t.is_decode, t.shares}));
    line["samples"] = t.rates.size();
    text += csv_line(line, kColumns) + "\n";
  }
  return text;
}

std::string model_bench_text(const record::ModelBenchRecord& bench,
                             const TerminalOptions& terminal,
                             bool is_markdown) {
  const record::Setting& s = bench.setting;
  const char* activations = bench.activations == "exact"    ? " with --exact"
                            : bench.activations == "8 bits" ? " with --fast-8bit"
                                                            : "";
  return rates_text(bench, terminal, is_markdown) +
         wrap_lines(
             fmt::format("level {}{}, KV cache in {}, batch {}; read the file in {}, opened a "
                         "session in {}; first token of a one-token prompt in {}; owned memory {}",
                         s.level, activations, s.cache_dtype, s.batch_size,
                         format_ns(bench.read_ns), format_ns(bench.open_ns),
                         format_ns(bench.first_token_ns), format_bytes(bench.owned_bytes)),
             terminal.columns) +
         shares_text(bench, terminal, is_markdown);
}

std::string kernel_times_text(const record::KernelTimes& times,
                              const TerminalOptions& terminal,
                              bool is_markdown,
                              bool is_whole) {
  Table table("<operation | kernels | time");
  record::KernelTimes::Operation rest;
  for (size_t i = 0; i < times.operations.size(); ++i) {
    const record::KernelTimes::Operation& each = times.operations[i];
    if (is_whole || i < kBriefRows) {
      table.add({each.name, std::to_string(each.kernels), format_ns(each.ns)});
    } else {
      rest.kernels += each.kernels;
      rest.ns += each.ns;
    }
  }
  if (rest.kernels > 0)
    table.add({fmt::format("({} more)", times.operations.size() - kBriefRows),
               std::to_string(rest.kernels), format_ns(rest.ns)});
  return "\n" + table_text(table, terminal, is_markdown) +
         wrap_lines(fmt::format("{}: {} in kernels, {} wall time", times.run,
                                format_ns(times.kernel_ns), format_ns(times.wall_ns)),
                    terminal.columns);
}

}  // namespace ridge::report
