// SPDX-License-Identifier: Apache-2.0
// Formats the tables of ridge machine.
#include "report/command_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <string_view>

#include "base/units.h"
#include "cost/predict.h"
#include "cost/quantized_time.h"
#include "report/tables.h"

namespace ridge::report {
namespace {

using Records = std::span<const MeasuredCeilings>;

// A second record only repeats the rates of types other than fp32.
bool shows(const MeasuredCeilings& record, DType dtype) {
  return !record.is_second || dtype == DType::kF32;
}

std::string title(const MeasuredCeilings& record, DType dtype, std::string_view plain) {
  return std::string(plain) + (record.tf32 && dtype == DType::kF32 ? " in TF32" : "");
}

std::string share(double part, double whole) {
  return whole > 0 ? fmt::format("{:.0f}%", 100 * part / whole) : "-";
}

std::string memory_text(const cost::Ceilings& c, const TerminalOptions& terminal) {
  Table table("<memory | capacity ?1 | read | copy | theoretical");
  for (const cost::MemoryLevel& level : c.levels)
    table.add({level.name, format_bytes(level.capacity_bytes),
               rate_cell(level.read_bytes_per_ns, "B/s"), rate_cell(level.copy_bytes_per_ns, "B/s"),
               rate_cell(level.theoretical_bytes_per_ns, "B/s")});
  return table.text(terminal) + "\n";
}

// Compares the rate of each instruction with the best GEMM of its type.
std::string multiplies_text(const cost::Ceilings& c, const TerminalOptions& terminal) {
  if (c.multiplies.empty()) return {};
  Table table(
      "<products | <instruction ?3 | per core and cycle ?4 | theoretical ?1 | "
      "multiply-only | share | with additions ?5 | best GEMM ?2 | share of multiply-only");
  bool is_over = false;
  for (const cost::MultiplyRates& m : c.multiplies) {
    const cost::ProductRates& gemm = std::max(
        c.product(m.dtype), c.product(m.dtype, true),
        [](const auto& a, const auto& b) { return a.peak_flops_per_ns < b.peak_flops_per_ns; });
    // GEMMs run on the fastest instruction of their type.
    const double best =
        gemm.dtype == m.dtype && c.multiply_rates(m.dtype) == &m ? gemm.peak_flops_per_ns : 0;
    is_over |= m.theoretical_ops_per_ns > 0 && m.multiply_ops_per_ns > m.theoretical_ops_per_ns;
    table.add({std::string(name(m.dtype)), terminal_safe(m.instruction),
               m.theoretical_ops_per_cycle > 0 ? fmt::format("{:g} op", m.theoretical_ops_per_cycle)
                                               : "-",
               rate_cell(m.theoretical_ops_per_ns, "op/s"),
               rate_cell(m.multiply_ops_per_ns, "op/s"),
               share(m.multiply_ops_per_ns, m.theoretical_ops_per_ns),
               rate_cell(m.accumulate_ops_per_ns, "op/s"), rate_cell(best, "op/s"),
               best > 0 ? share(best, m.multiply_ops_per_ns) : "-"});
  }
  const std::string rows = table.text(terminal) + "\n";
  std::string text =
      "Multiply-only: loops on registers; 1 MAC is 2 op. The best GEMM of i16 unpacks quantized "
      "weights.";
  if (is_over) text += " A share over 100%: the clock was higher than when it was measured.";
  return rows + wrap_lines(text, terminal.columns) + "\n";
}

// How fast stored weights are unpacked, beside the bandwidth at which they come from memory.
std::string unpacks_text(const cost::Ceilings& c, const TerminalOptions& terminal) {
  if (c.unpacks.empty()) return {};
  Table table("<stored weight | unpack-only | memory reads ?1 | limit of decode");
  for (const cost::UnpackRate& u : c.unpacks) {
    const double reads = c.memory_reads_per_ns();
    table.add({std::string(name(u.weight)), rate_cell(u.bytes_per_ns, "B/s"),
               rate_cell(reads, "B/s"),
               fmt::format("{} ({})", rate_cell(std::min(reads, u.bytes_per_ns), "B/s"),
                           reads < u.bytes_per_ns ? "memory" : "unpacking")});
  }
  return table.text(terminal) + "\n";
}

std::string products_text(Records records, const TerminalOptions& terminal) {
  Table table("<GEMM | 96^3 ?2 | 384^3 ?3 | 1000^3 ?1 | best | theoretical | share");
  for (const MeasuredCeilings& record : records)
    for (const cost::ProductRates& p : record.ceilings.products) {
      if (!shows(record, p.dtype)) continue;
      auto at = [&](int64_t n) -> std::string {
        if (p.samples.empty()) return "-";  // only the best rate was measured
        double ns = cost::predict_product_ns(p, cost::ProductForm::kNT, {1, n, n, n});
        return rate_cell(2.0 * static_cast<double>(n * n * n) / ns, "FLOP/s");
      };
      table.add({title(record, p.dtype, p.name()), at(96), at(384), at(1000),
                 rate_cell(p.peak_flops_per_ns, "FLOP/s"),
                 rate_cell(p.theoretical_flops_per_ns, "FLOP/s"),
                 share(p.peak_flops_per_ns, p.theoretical_flops_per_ns)});
    }
  return table.text(terminal) + "\n";
}

// The rate of GEMMs with a weight [1000, 1000] as stored; from memory with one token, else in the
// caches.
std::string stored_text(const cost::Ceilings& c, const TerminalOptions& terminal) {
  if (c.quantized_gemms.empty()) return {};
  constexpr int64_t kSize = 1000;
  Table table(
      "<stored weight | <activations ?4 | 1 token, from memory ?3 | 1 token | 4 ?2 | "
      "8 ?1 | 32 | 192 ?5");
  for (const cost::QuantizedRates& rates : c.quantized_gemms) {
    auto cell = [&](int64_t tokens, double memory_share) {
      if (rates.most_tokens > 0 && tokens > rates.most_tokens) return rate_cell(0, "");
      const double ns =
          cost::quantized_gemm_ns(cost::quantized_time(rates, tokens), memory_share, kSize, kSize);
      return rate_cell(2.0 * static_cast<double>(tokens * kSize * kSize) / ns, "FLOP/s");
    };
    table.add({std::string(name(rates.weight)), std::string(name(rates.activations)), cell(1, 1),
               cell(1, 0), cell(4, 0), cell(8, 0), cell(32, 0), cell(192, 0)});
  }
  return table.text(terminal) + "\n";
}

std::string rest_text(Records records, const TerminalOptions& terminal) {
  const cost::Ceilings& c = records.front().ceilings;
  Table table("<other | measured");
  table.add({"vector arithmetic in registers", rate_cell(c.fused_flops_per_ns, "FLOP/s")});
  table.add({"vector arithmetic in L1, one operation at a time",
             rate_cell(c.arithmetic_flops_per_ns, "FLOP/s")});
  table.add({"exponentials, divisions, roots", rate_cell(c.transcendentals_per_ns, "/s")});
  for (const MeasuredCeilings& record : records)
    for (const cost::AttentionRates& a : record.ceilings.attention) {
      if (!shows(record, a.dtype)) continue;
      const std::string rates = title(record, a.dtype, name(a.dtype));
      table.add({fmt::format("attention forward {}, head size 80", rates),
                 rate_cell(4 * 80 / (4 * 80 / a.forward_flops_per_ns + 1 / a.forward_scores_per_ns),
                           "FLOP/s")});
      table.add(
          {fmt::format("attention backward {}, head size 80", rates),
           rate_cell(10 * 80 / (10 * 80 / a.backward_flops_per_ns + 1 / a.backward_scores_per_ns),
                     "FLOP/s")});
    }
  table.add({"kernel call", format_ns(c.launch_ns)});
  if (c.stream_launch_ns > 0)
    table.add({"kernel call launched by the host", format_ns(c.stream_launch_ns)});
  if (c.parallel_ns > 0) table.add({"parallel region", format_ns(c.parallel_ns)});
  for (const MeasuredCeilings& record : records)
    for (DType dtype : {DType::kF32, DType::kBF16})
      if (shows(record, dtype))
        table.add({"ridge point, " + title(record, dtype, name(dtype)),
                   fmt::format("{:.1f} FLOP/B", cost::ridge_point(record.ceilings, dtype))});
  return table.text(terminal) + "\n";
}

// The rates of each type: of GEMMs, and of loops that only multiply.
std::string brief_products_text(Records records, const TerminalOptions& terminal) {
  Table table("<GEMM | best | theoretical | share | multiply-only | ridge point");
  for (const MeasuredCeilings& record : records)
    for (const cost::ProductRates& p : record.ceilings.products) {
      if (!shows(record, p.dtype)) continue;
      const cost::MultiplyRates* alone = record.ceilings.multiply_rates(p.dtype);
      table.add({title(record, p.dtype, p.name()), rate_cell(p.peak_flops_per_ns, "FLOP/s"),
                 rate_cell(p.theoretical_flops_per_ns, "FLOP/s"),
                 share(p.peak_flops_per_ns, p.theoretical_flops_per_ns),
                 alone == nullptr ? "-" : rate_cell(alone->multiply_ops_per_ns, "op/s"),
                 fmt::format("{:.1f} FLOP/B",
                             p.peak_flops_per_ns / record.ceilings.memory_bytes_per_ns())});
    }
  return table.text(terminal) + "\n";
}

// Lists the other ceilings in a paragraph.
std::string brief_rest_text(const cost::Ceilings& c, const TerminalOptions& terminal) {
  std::string text = fmt::format(
      "Vector arithmetic: {} in registers, {} one operation at a time; {} exponentials, divisions or "
      "roots. A kernel call takes {}{}{}.",
      rate_cell(c.fused_flops_per_ns, "FLOP/s"), rate_cell(c.arithmetic_flops_per_ns, "FLOP/s"),
      rate_cell(c.transcendentals_per_ns, "/s"), format_ns(c.launch_ns),
      c.stream_launch_ns > 0
          ? fmt::format(" in a graph, {} launched by the host", format_ns(c.stream_launch_ns))
          : "",
      c.parallel_ns > 0 ? fmt::format(", a parallel region {}", format_ns(c.parallel_ns)) : "");
  if (!c.unpacks.empty()) {
    const cost::UnpackRate& slowest =
        *std::ranges::min_element(c.unpacks, {}, &cost::UnpackRate::bytes_per_ns);
    text += fmt::format(" Of the quantized weights {} is unpacked slowest, at {}.",
                        name(slowest.weight), rate_cell(slowest.bytes_per_ns, "B/s"));
  }
  return wrap_lines(text, terminal.columns) + "\n";
}

}  // namespace

std::string ceilings_text(std::span<const MeasuredCeilings> records,
                          bool verbose,
                          const TerminalOptions& terminal) {
  const cost::Ceilings& c = records.front().ceilings;
  std::string text = memory_text(c, terminal);
  if (!verbose) return text + brief_products_text(records, terminal) + brief_rest_text(c, terminal);
  text += multiplies_text(c, terminal) + unpacks_text(c, terminal) +
          products_text(records, terminal) + stored_text(c, terminal) +
          rest_text(records, terminal);
  return text;
}

std::string age_text(const std::string& measured_at) {
  std::tm parts{};
  if (strptime(measured_at.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts) == nullptr) return "unknown";
  double hours = std::difftime(std::time(nullptr), timegm(&parts)) / 3600;
  if (hours < 1) return fmt::format("{:.0f} min", 60 * std::max(hours, 0.0));
  return hours < 48 ? fmt::format("{:.1f} h", hours) : fmt::format("{:.0f} days", hours / 24);
}

}  // namespace ridge::report
