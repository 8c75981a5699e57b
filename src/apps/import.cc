// SPDX-License-Identifier: Apache-2.0
// ridge import: makes an output folder of another program's trace.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "apps/output_folder.h"
#include "apps/subcommand.h"
#include "apps/this_machine.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/units.h"
#include "cost/hardware.h"
#include "record/import/imported_run.h"
#include "record/import/trace_file.h"
#include "record/operation_table.h"
#include "report/brief_report.h"
#include "report/json_text.h"
#include "report/output_files.h"
#include "report/tables.h"

namespace ridge::apps {
namespace {

constexpr size_t kMostRows = 20;
constexpr size_t kMostUnknown = 5;
constexpr size_t kBriefUnknown = 2;

struct ImportOptions {
  std::string trace;
  OutputOptions output;
  std::optional<std::string> hardware;
  bool verbose = false;
};

using Named = std::pair<std::string, int64_t>;

// Largest first.
std::vector<Named> unknown_operations(const record::Attribution& attribution) {
  std::vector<Named> sorted(attribution.unknown.begin(), attribution.unknown.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Named& a, const Named& b) { return a.second > b.second; });
  return sorted;
}

std::string attribution_text(const record::Attribution& a, bool verbose) {
  auto percent = [&](int64_t part_ns) { return fmt::format("{:.1f}%", 100 * a.share(part_ns)); };
  std::string text = fmt::format(
      "Attributed: {:.1f}% of the operations' time ({} in operations that Ridge knows, {} between "
      "them in composites). {} is in the framework's frames, {} in unknown operations. {} has no "
      "recorded FLOPs and bytes.\n",
      100 * a.attributed_share(), percent(a.known_ns), percent(a.composite_ns), percent(a.frame_ns),
      percent(a.unknown_ns), percent(a.uncounted_ns));
  const std::vector<Named> unknown = unknown_operations(a);
  const size_t most = verbose ? kMostUnknown : kBriefUnknown;
  for (size_t i = 0; i < std::min(unknown.size(), most); ++i)
    text += fmt::format("  unknown: {} {}\n", format_ns(static_cast<double>(unknown[i].second)),
                        terminal_safe(unknown[i].first));
  if (unknown.size() > most)
    text += fmt::format("  and {} more (import.json)\n", unknown.size() - most);
  return text;
}

std::string import_json(const record::ForeignTrace& trace, const record::Attribution& a) {
  report::Json json = {{"version", 1},
                       {"trace", trace.source},
                       {"framework", trace.framework},
                       {"events", trace.events.size()},
                       {"attributed_share", a.attributed_share()},
                       {"known_ns", a.known_ns},
                       {"without_counts_ns", a.uncounted_ns},
                       {"composite_ns", a.composite_ns},
                       {"frame_ns", a.frame_ns},
                       {"unknown_ns", a.unknown_ns}};
  report::Json& unknown = json["unknown"] = report::Json::array();
  for (const auto& [name, ns] : unknown_operations(a))
    unknown.push_back({{"name", name}, {"time_ns", ns}});
  return report::json_text(json);
}

std::string run_text(const record::RunRecord& run, bool verbose, const TerminalOptions& terminal) {
  const Summary step = run.wall();
  const std::string counts =
      run.executed == Work() && run.planned_bytes == 0
          ? ""
          : fmt::format(", {} FLOPs and {} per step",
                        format_count(static_cast<double>(run.executed.flops)),
                        format_bytes(run.planned_bytes));
  const std::string text =
      fmt::format("{}: {} step{} of {}{}\n", terminal_safe(run.setting.str()), step.count,
                  step.count == 1 ? "" : "s", format_ns(step.median), counts);
  const record::OperationTable table = record::table_by_op(run.step, nullptr);
  const std::string rows = verbose
                               ? report::operation_table(table, run.step, kMostRows).text(terminal)
                               : report::brief_operation_table(
                                     table, run.step, report::kBriefOperations, run.setting.str())
                                     .text(report::fitted(terminal));
  return wrap_lines(text, terminal.columns) + "\n" + rows;
}

// The ceilings of the machine that the trace is from, if the user names it.
std::optional<cost::Ceilings> ceilings(const ImportOptions& o,
                                       bool is_on_device,
                                       const TerminalOptions& terminal) {
  if (!o.hardware) return std::nullopt;
  MachineOptions machine;
  if (!is_on_device) machine.device = "cpu";
  const passes::Selection plain("baseline", "");
  return planning::choose_hardware(*o.hardware, this_machine(machine, plain, terminal), false)
      .ceilings;
}

void run(const ImportOptions& o, const AppContext& context) {
  OutputFolder folder(*o.output.folder, o.output.overwrite);
  const record::ForeignTrace trace = record::read_trace(o.trace);
  const record::ImportedSteps steps = record::imported_steps(trace);
  record::LabRecord lab;
  lab.program = kProgram;
  lab.command = context.command;
  lab.finished_at = utc_now();
  lab.ceilings = ceilings(o, steps.is_on_device, context.terminal);
  if (lab.ceilings)
    lab.warnings.push_back(
        "predictions of imported operations are limits of the roofline, from their FLOPs and bytes");
  lab.runs.push_back(record::imported_run(trace, steps, lab.limits()));
  lab.detailed.push_back(0);
  folder.add("import.json", import_json(trace, steps.attribution));
  folder.commit(report::output_files(lab));
  fmt::print("{}\n{}{}", run_text(lab.runs[0], o.verbose, context.terminal),
             wrap_lines(attribution_text(steps.attribution, o.verbose), context.terminal.columns),
             written_text(folder, context.terminal, o.verbose));
}

}  // namespace

void register_import(Command program, const AppContext& context) {
  auto o = std::make_shared<ImportOptions>();
  Command app = program.add_subcommand(
      "import", "Make an output folder of a trace of PyTorch, Nsight Systems or rocprofv3");
  app.add_option(
         "TRACE", o->trace,
         "a trace of torch.profiler (JSON, also in gzip), a SQLite export of Nsight Systems, or "
         "a kernel trace of rocprofv3 (CSV or JSON)")
      .required();
  app.add_option("--hardware", o->hardware,
                 "the trace's machine, for rooflines and MFU: this, " + cost::hardware_names() +
                     ", or a JSON file as of ridge plan");
  add_output_options(app, o->output, "folder to write").required();
  app.add_verbose_flag(o->verbose);
  app.footer(
      "The trace is one that torch.profiler.profile(record_shapes=True, with_stack=True) exports. Steps\n"
      "are those of its schedule, and scopes those of nn.Module and record_function. `nsys export --type\n"
      "sqlite` and `rocprofv3 --kernel-trace` know kernels, their names and times alone; NVTX ranges are\n"
      "their scopes.\n"
      "Examples:\n"
      "  ridge import torch_trace.json.gz --out torch\n"
      "  ridge report torch\n"
      "  ridge import nsys.sqlite --out nsys\n"
      "  ridge import kernel_trace.csv --out rocprof\n"
      "  ridge import torch_trace.json.gz --hardware h100 --out torch-h100\n"
      "  ridge lab --preset small --level fused --out ridge-fused\n"
      "  ridge diff torch ridge-fused");
  app.callback([o, &context] { run(*o, context); });
}

}  // namespace ridge::apps
