// SPDX-License-Identifier: Apache-2.0
// ridge machine: measures this machine's best rates and compares them with the theoretical ones.
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/machine_ceilings.h"
#include "apps/machine_topology.h"
#include "apps/model_options.h"
#include "apps/subcommand.h"
#include "backends/cpu/calibration/calibration.h"
#include "base/error.h"
#include "base/units.h"
#include "cost/predict.h"
#include "cost/stored_time.h"
#include "measure/topology.h"

namespace ridge::apps {
namespace {

struct MachineCommand {
  MachineOptions machine;
  bool tf32 = false;
  bool remeasure = false;
  bool topology = false;
  bool json = false;
  bool verbose = false;
};

// One of a machine's records of ceilings. A GPU has a second record with its fp32 GEMMs in TF32,
// which otherwise repeats the first.
struct Record {
  cost::Ceilings ceilings;
  bool tf32 = false;
  bool is_second = false;

  bool shows(DType dtype) const { return !is_second || dtype == DType::kF32; }
  std::string title(DType dtype, std::string_view plain) const {
    return std::string(plain) + (tf32 && dtype == DType::kF32 ? " in TF32" : "");
  }
};
using Records = std::vector<Record>;

std::string rate(double per_ns, const char* unit) {
  return per_ns > 0 ? format_rate(per_ns * 1e9, unit) : "-";
}

std::string share(double part, double whole) {
  return whole > 0 ? fmt::format("{:.0f}%", 100 * part / whole) : "-";
}

void print_memory(const cost::Ceilings& c, const TerminalOptions& terminal) {
  Table table({{"memory", Align::kLeft},
               {"capacity", Align::kRight, 1},
               {"read"},
               {"copy"},
               {"theoretical"}});
  for (const cost::MemoryLevel& level : c.levels)
    table.add({level.name, format_bytes(level.capacity_bytes), rate(level.read_bytes_per_ns, "B/s"),
               rate(level.copy_bytes_per_ns, "B/s"), rate(level.theoretical_bytes_per_ns, "B/s")});
  fmt::print("{}\n", table.text(terminal));
}

// What each instruction multiplies, beside the best GEMM of its type.
void print_multiplies(const cost::Ceilings& c, const TerminalOptions& terminal) {
  if (c.multiplies.empty()) return;
  Table table({{"products", Align::kLeft},
               {"instruction", Align::kLeft, 3},
               {"per core and cycle", Align::kRight, 4},
               {"theoretical", Align::kRight, 1},
               {"multiply-only"},
               {"share"},
               {"with additions", Align::kRight, 5},
               {"best GEMM", Align::kRight, 2},
               {"share of multiply-only"}});
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
               rate(m.theoretical_ops_per_ns, "op/s"), rate(m.multiply_ops_per_ns, "op/s"),
               share(m.multiply_ops_per_ns, m.theoretical_ops_per_ns),
               rate(m.accumulate_ops_per_ns, "op/s"), rate(best, "op/s"),
               best > 0 ? share(best, m.multiply_ops_per_ns) : "-"});
  }
  fmt::print("{}\n", table.text(terminal));
  std::string text =
      "Multiply-only: loops on registers; 1 MAC is 2 op. The best GEMM of i16 unpacks quantized "
      "weights.";
  if (is_over) text += " A share over 100%: the clock was higher than when it was measured.";
  fmt::print("{}\n", wrap_lines(text, terminal.columns));
}

// How fast stored weights are unpacked, beside the bandwidth at which they come from memory.
void print_unpacks(const cost::Ceilings& c, const TerminalOptions& terminal) {
  if (c.unpacks.empty()) return;
  Table table({{"stored weight", Align::kLeft},
               {"unpack-only"},
               {"memory reads", Align::kRight, 1},
               {"limit of decode"}});
  for (const cost::UnpackRate& u : c.unpacks) {
    const double reads = c.memory_reads_per_ns();
    table.add({std::string(name(u.weight)), rate(u.bytes_per_ns, "B/s"), rate(reads, "B/s"),
               fmt::format("{} ({})", rate(std::min(reads, u.bytes_per_ns), "B/s"),
                           reads < u.bytes_per_ns ? "memory" : "unpacking")});
  }
  fmt::print("{}\n", table.text(terminal));
}

void print_products(const Records& records, const TerminalOptions& terminal) {
  Table table({{"GEMM", Align::kLeft},
               {"96^3", Align::kRight, 2},
               {"384^3", Align::kRight, 3},
               {"1000^3", Align::kRight, 1},
               {"best"},
               {"theoretical"},
               {"share"}});
  for (const Record& record : records)
    for (const cost::ProductRates& p : record.ceilings.products) {
      if (!record.shows(p.dtype)) continue;
      auto at = [&](int64_t n) -> std::string {
        if (p.samples.empty()) return "-";  // only the best rate was measured
        double ns = cost::predict_product_ns(p, cost::ProductForm::kNT, {1, n, n, n});
        return rate(2.0 * static_cast<double>(n * n * n) / ns, "FLOP/s");
      };
      table.add({record.title(p.dtype, p.name()), at(96), at(384), at(1000),
                 rate(p.peak_flops_per_ns, "FLOP/s"), rate(p.theoretical_flops_per_ns, "FLOP/s"),
                 share(p.peak_flops_per_ns, p.theoretical_flops_per_ns)});
    }
  fmt::print("{}\n", table.text(terminal));
}

// The rate of GEMMs with a weight [1000, 1000] as stored; from memory with one token, else in the
// caches.
void print_stored(const cost::Ceilings& c, const TerminalOptions& terminal) {
  if (c.stored.empty()) return;
  constexpr int64_t kSize = 1000;
  Table table({{"stored weight", Align::kLeft},
               {"activations", Align::kLeft, 4},
               {"1 token, from memory", Align::kRight, 3},
               {"1 token"},
               {"4", Align::kRight, 2},
               {"8", Align::kRight, 1},
               {"32"},
               {"192", Align::kRight, 5}});
  for (const cost::StoredRates& rates : c.stored) {
    auto cell = [&](int64_t tokens, double memory_share) {
      if (rates.most_tokens > 0 && tokens > rates.most_tokens) return rate(0, "");
      const double ns =
          cost::stored_product_ns(cost::stored_time(rates, tokens), memory_share, kSize, kSize);
      return rate(2.0 * static_cast<double>(tokens * kSize * kSize) / ns, "FLOP/s");
    };
    table.add({std::string(name(rates.weight)), std::string(name(rates.activations)), cell(1, 1),
               cell(1, 0), cell(4, 0), cell(8, 0), cell(32, 0), cell(192, 0)});
  }
  fmt::print("{}\n", table.text(terminal));
}

void print_rest(const Records& records, const TerminalOptions& terminal) {
  const cost::Ceilings& c = records.front().ceilings;
  Table table({{"other", Align::kLeft}, {"measured"}});
  table.add({"vector arithmetic in registers", rate(c.fused_flops_per_ns, "FLOP/s")});
  table.add({"vector arithmetic in L1, one operation at a time",
             rate(c.arithmetic_flops_per_ns, "FLOP/s")});
  table.add({"exponentials, divisions, roots", rate(c.transcendentals_per_ns, "/s")});
  for (const Record& record : records)
    for (const cost::AttentionRates& a : record.ceilings.attention) {
      if (!record.shows(a.dtype)) continue;
      const std::string rates = record.title(a.dtype, name(a.dtype));
      table.add({fmt::format("attention forward {}, head size 80", rates),
                 rate(4 * 80 / (4 * 80 / a.forward_flops_per_ns + 1 / a.forward_scores_per_ns),
                      "FLOP/s")});
      table.add({fmt::format("attention backward {}, head size 80", rates),
                 rate(10 * 80 / (10 * 80 / a.backward_flops_per_ns + 1 / a.backward_scores_per_ns),
                      "FLOP/s")});
    }
  table.add({"kernel call", format_ns(c.launch_ns)});
  if (c.parallel_ns > 0) table.add({"parallel region", format_ns(c.parallel_ns)});
  for (const Record& record : records)
    for (DType dtype : {DType::kF32, DType::kBF16})
      if (record.shows(dtype))
        table.add({"ridge point, " + record.title(dtype, name(dtype)),
                   fmt::format("{:.1f} FLOP/B", cost::ridge_point(record.ceilings, dtype))});
  fmt::print("{}\n", table.text(terminal));
}

// The rates of each type: of GEMMs, and of loops that only multiply.
void print_brief_products(const Records& records, const TerminalOptions& terminal) {
  Table table({{"GEMM", Align::kLeft},
               {"best"},
               {"theoretical"},
               {"share"},
               {"multiply-only"},
               {"ridge point"}});
  for (const Record& record : records)
    for (const cost::ProductRates& p : record.ceilings.products) {
      if (!record.shows(p.dtype)) continue;
      const cost::MultiplyRates* alone = record.ceilings.multiply_rates(p.dtype);
      table.add({record.title(p.dtype, p.name()), rate(p.peak_flops_per_ns, "FLOP/s"),
                 rate(p.theoretical_flops_per_ns, "FLOP/s"),
                 share(p.peak_flops_per_ns, p.theoretical_flops_per_ns),
                 alone == nullptr ? "-" : rate(alone->multiply_ops_per_ns, "op/s"),
                 fmt::format("{:.1f} FLOP/B",
                             p.peak_flops_per_ns / record.ceilings.memory_bytes_per_ns())});
    }
  fmt::print("{}\n", table.text(terminal));
}

// The other ceilings in a paragraph.
void print_brief_rest(const cost::Ceilings& c, const TerminalOptions& terminal) {
  std::string text = fmt::format(
      "Vector arithmetic: {} in registers, {} one operation at a time; {} exponentials, divisions or "
      "roots. A kernel call takes {}{}.",
      rate(c.fused_flops_per_ns, "FLOP/s"), rate(c.arithmetic_flops_per_ns, "FLOP/s"),
      rate(c.transcendentals_per_ns, "/s"), format_ns(c.launch_ns),
      c.parallel_ns > 0 ? fmt::format(", a parallel region {}", format_ns(c.parallel_ns)) : "");
  if (!c.unpacks.empty()) {
    const cost::UnpackRate& slowest =
        *std::ranges::min_element(c.unpacks, {}, &cost::UnpackRate::bytes_per_ns);
    text += fmt::format(" Of the quantized weights {} is unpacked slowest, at {}.",
                        name(slowest.weight), rate(slowest.bytes_per_ns, "B/s"));
  }
  fmt::print("{}\n", wrap_lines(text, terminal.columns));
}

// "3.2 h" since an ISO 8601 time.
std::string age(const std::string& measured_at) {
  std::tm parts{};
  if (strptime(measured_at.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts) == nullptr) return "unknown";
  double hours = std::difftime(std::time(nullptr), timegm(&parts)) / 3600;
  if (hours < 1) return fmt::format("{:.0f} min", 60 * std::max(hours, 0.0));
  return hours < 48 ? fmt::format("{:.1f} h", hours) : fmt::format("{:.0f} days", hours / 24);
}

measure::Topology topology() {
  measure::Topology found = measure::read_topology();
  measure::add_nvlinks(found);
  return found;
}

int kernel_threads(const MachineOptions& machine) {
  return machine.threads > 0 ? machine.threads : omp_get_max_threads();
}

void run(const MachineCommand& o, const Command& app, const TerminalOptions& terminal) {
  app.refuse_unused({{o.topology, "with --topology", {"--tf32", "--remeasure", "--verbose"}}});
  const bool is_gpu = chosen_device(o.machine) == "cuda";
  if (o.tf32 && !is_gpu) throw usage_error("[tf32] expected a GPU (--device cuda), got a CPU");
  // Sets threads and ISA.
  auto backend = make_backend(o.machine, passes::Selection("baseline", ""));
  if (o.topology) {
    if (o.json)
      fmt::print("{}", topology_json(topology(), kernel_threads(o.machine)));
    else
      print_topology(topology(), kernel_threads(o.machine), terminal);
    return;
  }
  auto measured = [&](bool tf32) {
    return machine_ceilings(o.machine, tf32, terminal, o.remeasure);
  };
  Records records = {{measured(o.tf32), o.tf32}};
  if (o.json) {
    fmt::print("{}", cost::to_json(records.front().ceilings));
    return;
  }
  if (is_gpu && !o.tf32) records.push_back({measured(true), true, true});
  const cost::Ceilings& c = records.front().ceilings;
  std::string heading = terminal_safe(c.machine.str()) + "\n";
  if (c.machine.clock_ghz > 0)
    heading += fmt::format("{:.2f} GHz ({})\n", c.machine.clock_ghz,
                           terminal_safe(c.machine.clock_source));
  const measure::Topology places = topology();
  heading += topology_line(places) + "\n" + obstacle_lines(places, kernel_threads(o.machine));
  fmt::print("{}\n", wrap_lines(heading, terminal.columns));
  print_memory(c, terminal);
  std::string notes;
  if (o.verbose) {
    print_multiplies(c, terminal);
    print_unpacks(c, terminal);
    print_products(records, terminal);
    print_stored(c, terminal);
    print_rest(records, terminal);
    for (const std::string& note : c.notes) notes += terminal_safe(note, kLongestMessage) + "\n";
  } else {
    print_brief_products(records, terminal);
    print_brief_rest(c, terminal);
  }
  std::filesystem::path path = ceilings_path(c.machine);
  bool is_cached = !path.empty() && std::filesystem::exists(path);
  notes += fmt::format("measured {} ago, {}", age(c.measured_at),
                       is_cached ? fmt::format("cached in {}", terminal_safe(path.string()))
                                 : "not cached: there is no cache folder");
  fmt::print("{}", wrap_lines(notes, terminal.columns));
}

}  // namespace

void register_machine(Command program, const AppContext& context) {
  auto options = std::make_shared<MachineCommand>();
  Command app = program.add_subcommand(
      "machine",
      "Measure this machine's bandwidths, GEMM rates and launch overhead; show its topology");
  add_machine_options(app, options->machine);
  app.add_flag("--tf32", options->tf32,
               "on a GPU: measure fp32 GEMMs in TF32 only (by default the tables show both, and "
               "--json shows fp32)");
  app.add_flag("--remeasure", options->remeasure, "measure again even if results are cached");
  app.add_flag("--topology", options->topology,
               "show sockets, cores, caches, NUMA nodes and GPU links, and what costs speed there; "
               "measures nothing");
  app.add_verbose_flag(options->verbose).excludes(app.add_json_flag(options->json));
  app.footer(
      "Examples:\n"
      "  ridge machine\n"
      "  ridge machine --verbose                 all rates, by type, size and number of tokens\n"
      "  ridge machine --topology                where cores, memory and GPUs lie, what hurts\n"
      "  ridge machine --device cpu --threads 1 --isa avx2\n"
      "  ridge machine --remeasure --json > machine.json");
  app.callback([options, app, &context] { run(*options, app, context.terminal); });
}

}  // namespace ridge::apps
