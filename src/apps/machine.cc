// SPDX-License-Identifier: Apache-2.0
// ridge machine: measures this machine's best rates and compares them with the theoretical ones.
#include <fmt/format.h>
#include <omp.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "apps/model_options.h"
#include "apps/subcommand.h"
#include "apps/this_machine.h"
#include "base/error.h"
#include "measure/topology.h"
#include "report/command_text.h"

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

record::Topology topology() {
  record::Topology found = measure::read_topology();
  measure::add_nvlinks(found);
  return found;
}

int kernel_threads(const MachineOptions& machine) {
  return machine.threads > 0 ? machine.threads : omp_get_max_threads();
}

void run(const MachineCommand& o, const Command& app, const TerminalOptions& terminal) {
  app.refuse_unused({{o.topology, "with --topology", {"--tf32", "--remeasure", "--verbose"}}});
  const bool on_gpu = is_gpu(o.machine);
  if (o.tf32 && !on_gpu) throw usage_error("[tf32] expected a GPU (--device cuda), got a CPU");
  // Sets threads and ISA.
  auto backend = make_backend(o.machine, passes::Selection("baseline", ""));
  if (o.topology) {
    const int threads = kernel_threads(o.machine);
    fmt::print("{}", o.json ? report::topology_json(topology(), threads)
                            : report::topology_text(topology(), threads, terminal));
    return;
  }
  auto measured = [&](bool tf32) {
    return machine_ceilings(o.machine, {.tf32 = tf32, .remeasure = o.remeasure}, terminal);
  };
  std::vector<report::MeasuredCeilings> records = {{measured(o.tf32), o.tf32}};
  if (o.json) {
    fmt::print("{}", cost::to_json(records.front().ceilings));
    return;
  }
  if (on_gpu && !o.tf32) records.push_back({measured(true), true, true});
  const cost::Ceilings& c = records.front().ceilings;
  std::string heading = terminal_safe(c.machine.str()) + "\n";
  if (c.machine.clock_ghz > 0)
    heading += fmt::format("{:.2f} GHz ({})\n", c.machine.clock_ghz,
                           terminal_safe(c.machine.clock_source));
  const record::Topology places = topology();
  heading += report::topology_line(places) + "\n" +
             report::performance_warning_lines(places, kernel_threads(o.machine));
  fmt::print("{}\n", wrap_lines(heading, terminal.columns));
  fmt::print("{}", report::ceilings_text(records, o.verbose, terminal));
  std::string notes;
  if (o.verbose)
    for (const std::string& note : c.notes) notes += terminal_safe(note, kLongestMessage) + "\n";
  std::filesystem::path path = measure::ceilings_path(c.machine);
  bool is_cached = !path.empty() && std::filesystem::exists(path);
  notes += fmt::format("measured {} ago, {}", report::age_text(c.measured_at),
                       is_cached ? fmt::format("cached in {}", terminal_safe(path.string()))
                                 : "not cached: there is no cache folder");
  fmt::print("{}", wrap_lines(notes, terminal.columns));
}

}  // namespace

void register_machine(Command program, const AppContext& context) {
  auto options = std::make_shared<MachineCommand>();
  Command app = program.add_subcommand(
      "machine", "Measure this machine's bandwidths and GEMM rates; show its topology");
  add_machine_options(app, options->machine);
  app.add_flag("--tf32", options->tf32,
               "on a GPU: measure fp32 GEMMs in TF32 only (by default the tables show both, and "
               "--json shows fp32)");
  app.add_flag("--remeasure", options->remeasure,
               "measure again even if results are cached: after a change of the machine");
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
