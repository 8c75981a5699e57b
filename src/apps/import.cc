// SPDX-License-Identifier: Apache-2.0
// ridge import: makes an output folder of another program's trace.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "apps/output_options.h"
#include "apps/subcommand.h"
#include "apps/this_machine.h"
#include "base/clock.h"
#include "base/error.h"
#include "cost/hardware.h"
#include "record/import/imported_ranks.h"
#include "record/import/imported_run.h"
#include "record/import/trace_file.h"
#include "report/exchange_text.h"
#include "report/import_text.h"
#include "report/json_text.h"
#include "report/rank_files.h"

namespace ridge::apps {
namespace {

struct ImportOptions {
  std::vector<std::string> traces;
  std::string capture;
  OutputOptions output;
  std::optional<std::string> hardware;
  bool verbose = false;
};

// Whether products in fp32 have the ceiling of TF32.
bool has_tf32(const std::string& hardware, const record::ForeignTrace& trace) {
  const cost::Hardware* sheet = cost::find_hardware(hardware);
  return trace.uses_tf32 && sheet != nullptr && sheet->tf32_tera_flops > 0;
}

// The ceilings of the machine that the trace is from: as the user names it, or else the data sheet
// of the device that the trace names.
std::optional<cost::Ceilings> ceilings(const ImportOptions& o,
                                       const std::string& device,
                                       const record::ForeignTrace& trace,
                                       bool is_on_device,
                                       const TerminalOptions& terminal) {
  const std::string name = o.hardware.value_or(device);
  if (name.empty()) return std::nullopt;
  MachineOptions machine;
  if (!is_on_device) machine.device = "cpu";
  const passes::Selection plain("baseline", "");
  return planning::choose_hardware(name, this_machine(machine, plain, terminal),
                                   has_tf32(name, trace))
      .ceilings;
}

// The traces of the ranks of one run, in their order, or the one of a run.
struct Ranks {
  std::deque<record::ForeignTrace> traces;  // steps refer to them
  std::vector<record::ImportedSteps> steps;
};

Ranks read_ranks(const ImportOptions& o) {
  constexpr size_t kMostRanks = 64;  // all are in memory
  std::vector<std::filesystem::path> files;
  for (const std::string& each : o.traces) {
    const std::vector<std::filesystem::path> inside = record::trace_files(each);
    files.insert(files.end(), inside.begin(), inside.end());
    if (inside.empty()) files.emplace_back(each);
  }
  if (files.size() > kMostRanks)
    throw file_error("[{}] expected the traces of at most {} ranks, found {}", o.traces[0],
                     kMostRanks, files.size());
  Ranks ranks;
  for (const std::filesystem::path& file : files) {
    ranks.traces.push_back(record::read_trace(file));
    if (!o.capture.empty())
      record::join_capture(ranks.traces.back(), record::read_trace(o.capture));
  }
  std::ranges::stable_sort(ranks.traces, {}, &record::ForeignTrace::rank);
  for (const record::ForeignTrace& each : ranks.traces)
    ranks.steps.push_back(record::imported_steps(each));
  return ranks;
}

void run(const ImportOptions& o, const AppContext& context) {
  OutputFolder folder(*o.output.folder, o.output.overwrite);
  const Ranks ranks = read_ranks(o);
  const record::ForeignTrace& trace = ranks.traces.front();
  const record::ImportedSteps& steps = ranks.steps.front();
  record::LabRecord lab;
  lab.program = kProgram;
  lab.command = context.command;
  lab.finished_at = utc_now();
  const cost::Hardware* sheet =
      steps.is_on_device && !trace.is_of_kernels
          ? cost::hardware_of_device(trace.device, trace.multiprocessors, trace.device_bytes)
          : nullptr;
  const std::string device = sheet == nullptr ? "" : sheet->name;
  lab.ceilings = ceilings(o, device, trace, steps.is_on_device, context.terminal);
  if (o.hardware && sheet != nullptr && *o.hardware != device)
    lab.warnings.push_back(fmt::format(
        "the trace was recorded on {}, but its ceilings are those of {}, which --hardware names",
        sheet->title, *o.hardware));
  lab.runs.push_back(record::imported_run(trace, steps, lab.limits()));
  if (lab.runs[0].predicted_ns > 0)
    lab.warnings.push_back(
        "predictions of imported operations are limits of the roofline, from their FLOPs and bytes");
  lab.detailed.push_back(0);
  const record::ImportSummary summary = record::import_summary(trace, steps.attribution);
  record::ExchangeRecord exchange;
  if (ranks.steps.size() > 1) {
    exchange = record::exchange_record(ranks.steps);
    lab.runs[0].setting.ranks = std::ssize(ranks.steps);
    lab.runs[0].setting.model = record::trace_title(o.traces[0]);
  }
  folder.add("import.json", report::json_text(report::to_json(summary)));
  folder.commit(report::with_ranks(lab, exchange, {}, report::output_files(lab)));
  for (const std::string& warning : lab.warnings)
    fmt::print("{}", report::wrap_lines("warning: " + terminal_safe(warning) + "\n",
                                        context.terminal.columns));
  fmt::print("{}{}{}", report::import_text(summary, lab.runs[0], o.verbose, context.terminal),
             report::exchange_text(exchange, context.terminal),
             written_text(folder, context.terminal, o.verbose));
}

}  // namespace

void register_import(Command program, const AppContext& context) {
  auto o = std::make_shared<ImportOptions>();
  Command app = program.add_subcommand(
      "import", "Read a trace of PyTorch, Nsight Systems or rocprofv3 as a run");
  app.add_option(
         "TRACE", o->traces,
         "a trace of torch.profiler (JSON, also in gzip), a SQLite export of Nsight Systems, or "
         "a kernel trace of rocprofv3 (its database, CSV or JSON); several traces, or a folder of them, are the "
         "ranks of one run")
      .required();
  app.add_option("--capture", o->capture,
                 "the trace of the capture of the graphs that the trace replays, for what each "
                 "of their kernels is; one of torch.profiler");
  app.add_option(
      "--hardware", o->hardware,
      "the machine for rooflines and MFU, unless it is the one that the trace names: this, " +
          cost::hardware_names() + ", or a JSON file as of ridge plan");
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
      "  ridge import rank0.json.gz rank1.json.gz --out ranks\n"
      "  ridge import torch_trace.json.gz --hardware h100 --out torch-h100\n"
      "  ridge lab --preset small --level fused --out ridge-fused\n"
      "  ridge diff torch ridge-fused");
  app.callback([o, &context] { run(*o, context); });
}

}  // namespace ridge::apps
