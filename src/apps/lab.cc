// SPDX-License-Identifier: Apache-2.0
// ridge lab: measures all levels on this machine, shows where the time goes, and gives advice.
#include <fmt/format.h>

#include <memory>

#include "apps/model_options.h"
#include "apps/output_options.h"
#include "apps/progress_bars.h"
#include "apps/subcommand.h"
#include "apps/this_machine.h"
#include "base/clock.h"
#include "base/units.h"
#include "bench/training_lab.h"
#include "report/brief_report.h"
#include "report/lab_files.h"
#include "report/output_files.h"

namespace ridge::apps {
namespace {

struct LabOptions {
  bench::TrainingLabOptions lab;
  OutputOptions output;
  FormatOptions format;
  bool json = false;
  bool verbose = false;
};

// Returns false after a Ctrl-C.
bool run(const LabOptions& o, const AppContext& context) {
  const TerminalOptions& terminal = context.terminal;
  bench::TrainingLab training_lab(o.lab);
  const report::OutputFormat format = o.format.chosen();
  record::LabRecord lab;
  lab.program = kProgram;
  lab.command = context.command;
  OutputFolder folder(o.output, "lab-out");
  auto ceilings = [&](bool remeasure) {
    return machine_ceilings(
        o.lab.machine,
        {.tf32 = training_lab.has_tf32(), .has_inference = false, .remeasure = remeasure},
        terminal);
  };
  lab.ceilings = ceilings(false);
  const InterruptRequest interrupt(
      "\nridge: the lab ends after this step; Ctrl-C again ends it at once\n");
  ProgressBars bars(terminal);
  size_t shown = 0;  // warnings in the heading
  auto say = [&](const std::string& text) {
    bars.clear();
    if (o.json) return;
    fmt::print("{}", text);
  };
  training_lab.run(
      {.remeasure = [&] { return bars.clear(), ceilings(true); },
       .note =
           [](const std::string& note) {
             fmt::print(stderr, "{}\n", terminal_safe(note, kWholeText));
           },
       .is_stopped = [&] { return interrupt.is_set(); },
       .tick = [&](const bench::LabWork& work,
                   const std::string& note) { bars.tick(work.name, work.total, work.unit, note); },
       .measured =
           [&] {
             shown = lab.warnings.size();
             say(report::lab_text(lab, o.verbose, terminal));
           },
       .advised = [&] { say(o.verbose ? report::advice_text(lab, terminal) : ""); },
       .tried =
           [&] {
             say(o.verbose ? report::trials_text(lab, terminal)
                           : report::brief_advice(lab, terminal));
           }},
      lab);
  bars.clear();
  if (lab.runs.empty()) {
    fmt::print(stderr, "Too few steps were measured for a summary.\n");
    return false;
  }
  lab.finished_at = utc_now();
  folder.commit(report::output_files(lab, format));
  const auto more = static_cast<int64_t>(lab.warnings.size() - shown);
  if (o.verbose || o.json)
    fmt::print(stderr, "{}", report::warning_lines(lab, o.json ? 0 : shown, terminal));
  else if (more > 0)
    fmt::print(stderr, "{} (--verbose)\n", counted(more, "more warning"));
  fmt::print("{}",
             o.json ? report::performance_summary(lab) : written_text(folder, terminal, o.verbose));
  return !interrupt.is_set();
}

void add_lab_options(Command app, LabOptions& options) {
  bench::TrainingLabOptions& o = options.lab;
  add_model_options(app, o.model);
  app.add_option("--level", o.levels,
                 "levels to compare: all, or a list of baseline, fused, kernels and compiled");
  app.add_option(
      "--profile-level", o.profile_levels,
      "levels whose operation tables are shown: all, or a list (default: the last level)");
  app.add_option("--profile-points", o.profile_points,
                 "batch sizes and lengths whose operations are in the files: first or all");
  add_switch_options(app, o.level);
  app.add_option("--batch-size", o.batch_sizes,
                 "sequences in a step: 4,8,16 (default: the preset's)")
      .numbers();
  app.add_option("--seq-len", o.lengths, "tokens in a sequence: 128,256 (default: the preset's)")
      .numbers();
  app.add_option(
      "--steps", o.steps,
      "measured steps (default: 20, on a GPU 48); half of the first 16 are instrumented, then 2 in "
      "64; on a GPU 1 in 16, at most 8");
  app.add_option("--warmup", o.warmup, "training steps before step 0, which are not measured");
  add_output_options(app, options.output,
                     "folder for the files (default: lab-out; if it exists, lab-out-2 ...)");
  add_format_options(app, options.format);
  app.add_option("--try", o.trials,
                 "pieces of advice to run, interleaved with the step that they change (0: none)");
  app.add_flag("--no-advice", o.no_advice, "stop after the tables: no advice, and no trial of it");
  app.add_verbose_flag(options.verbose).excludes(app.add_json_flag(options.json));
  add_machine_options(app, o.machine);
  add_nvtx_option(app, o.machine);
}

}  // namespace

void register_lab(Command program, const AppContext& context) {
  auto options = std::make_shared<LabOptions>();
  Command app = program.add_subcommand(
      "lab", "Train at each level and show the gains, the bottlenecks and advice");
  add_lab_options(app, *options);
  app.footer(
      "Ctrl-C ends the lab after the current step; what was measured is reported and written, then the\n"
      "program ends by SIGINT (exit code 130 in a shell). A second Ctrl-C ends it at once and writes\n"
      "nothing.\n"
      "Examples:\n"
      "  ridge lab                               the small model at every level\n"
      "  ridge lab --preset tiny --steps 8       a quick look\n"
      "  ridge lab --preset tiny --try 3         run three pieces of advice\n"
      "  ridge lab --batch-size 4,8,16 --seq-len 128,256 --level baseline,compiled\n"
      "  ridge lab --dtype bf16 --pass=-fuse_glu --out results");
  app.callback([options, app, &context] {
    app.refuse_unused(
        {without_folder(options->output), {options->lab.no_advice, "with --no-advice", {"--try"}}});
    if (!run(*options, context)) end_by_interrupt();
  });
}

}  // namespace ridge::apps
