// SPDX-License-Identifier: Apache-2.0
// ridge machine: measures this machine's best rates and compares them with the theoretical ones.
#include <fmt/format.h>
#include <omp.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "apps/model_options.h"
#include "apps/rank_options.h"
#include "apps/subcommand.h"
#include "apps/this_machine.h"
#include "backends/cuda/cuda_backend.h"
#include "base/error.h"
#include "files/atomic_file.h"
#include "measure/link_ceilings.h"
#include "measure/topology.h"
#include "report/command_text.h"
#include "report/link_text.h"

namespace ridge::apps {
namespace {

struct MachineCommand {
  MachineOptions machine;
  bool tf32 = false;
  bool remeasure = false;
  bool topology = false;
  bool links = false;
  int64_t link_ranks = 0;
  std::string chart;
  RankOptions ranks;
  bool json = false;
  bool verbose = false;
};

record::Topology topology() {
  record::Topology found = measure::read_topology();
  measure::add_nvlinks(found);
  return found;
}

void print_note(const std::string& note) {
  fmt::print(stderr, "{}\n", terminal_safe(note, kLongestMessage));
}

// As one of the ranks: measures the links between them, which the first one keeps.
int measure_links(MachineCommand& o, const TerminalOptions& terminal) {
  const auto backend = make_backend(o.machine, passes::Selection("compiled", ""));
  const runtime::Ranks& ranks = *o.ranks.joined;
  // Two tensors of each rank, in a quarter of the memory.
  const cost::Machine machine = measure::this_machine(is_gpu(o.machine));
  const int64_t most_bytes = backend->available_bytes() / (8 * ranks.place().local_ranks);
  Progress bar("measuring links", 100, "%", terminal);
  double shown = 0;
  const cost::LinkCurves link = measure::measure_links(
      *backend, ranks, std::stoll(o.ranks.of_first(std::to_string(most_bytes))),
      [&](double done, std::string_view step) {
        if (ranks.is_first()) bar.tick(static_cast<int64_t>(100 * (done - shown)), step);
        shown = done;
      });
  if (ranks.is_first()) measure::keep_link(machine, link, print_note);
  return 0;
}

// Starts the ranks, or is one of them: then it ends here.
void measure_links_as_ranks(MachineCommand& o, const TerminalOptions& terminal) {
  if (runtime::find_rank([](const char* v) { return std::getenv(v); }).launcher !=
      runtime::Launcher::kNone) {
    o.ranks.data_parallel = 0;
    join_ranks(o.ranks, o.machine);
    if (o.ranks.joined == nullptr) throw usage_error("[links] expected several ranks, got 1");
    std::exit(run_as_rank(o.ranks, "", [&] { return measure_links(o, terminal); }));
  }
  const bool on_gpu = is_gpu(o.machine);
  const int64_t ranks = o.link_ranks > 0 ? o.link_ranks : on_gpu ? backends::cuda::gpu_count() : 2;
  if (ranks < 2) throw usage_error("[links] expected at least 2 ranks or GPUs, got {}", ranks);
  if (const int code = start_ranks(ranks, o.ranks, on_gpu); code != 0) std::exit(code);
}

int kernel_threads(const MachineOptions& machine) {
  return machine.threads > 0 ? machine.threads : omp_get_max_threads();
}

void run(MachineCommand& o, const Command& app, const TerminalOptions& terminal) {
  app.refuse_unused(
      {{o.topology, "with --topology", {"--tf32", "--remeasure", "--verbose", "--links"}},
       {!o.links, "without --links", {"--ranks", "--gpus"}}});
  if (o.links) measure_links_as_ranks(o, terminal);
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
  const std::vector<cost::LinkCurves> links =
      measure::known_links(records.front().ceilings.machine, print_note);
  if (!o.chart.empty())
    files::write_file(o.chart, report::links_chart(links, records.front().ceilings.machine.device),
                      files::Links::kFollow);
  if (o.json) {
    fmt::print("{}", report::ceilings_json(records.front().ceilings, links));
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
  fmt::print("{}{}", report::ceilings_text(records, o.verbose, terminal),
             report::links_text(links, o.verbose, terminal));
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
  app.add_flag("--links", options->links,
               "measure the links between ranks too: all_reduce, all_gather and reduce_scatter of "
               "2 KB to 256 MB, which predictions of collectives use; kept like the other rates");
  app.add_option("--ranks", options->link_ranks,
                 "with --links: how many ranks (default: 2 on CPUs, started by mpirun, or one for "
                 "each GPU)");
  add_gpus_option(app, options->ranks);
  app.add_option("--chart", options->chart,
                 "draw the times of collectives by size into this file (SVG); for links that were "
                 "measured by --links");
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
