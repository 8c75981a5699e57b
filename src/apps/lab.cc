// SPDX-License-Identifier: Apache-2.0
// ridge lab: measures all levels on this machine, shows where the time goes, and gives advice.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>

#include "apps/interrupt.h"
#include "apps/machine_ceilings.h"
#include "apps/model_options.h"
#include "apps/output_folder.h"
#include "apps/subcommand.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/openmp_threads.h"
#include "base/printable.h"
#include "bench/advice.h"
#include "bench/advice_trial.h"
#include "bench/ceiling_check.h"
#include "measure/interleaved_runs.h"
#include "record/consistency_checks.h"
#include "record/gain_error.h"
#include "report/brief_report.h"
#include "report/console_report.h"
#include "report/output_files.h"
#include "report/performance_summary.h"

namespace ridge::apps {
namespace {

constexpr size_t kAdvice = 3;
constexpr int64_t kMostTrials = 10;

struct LabOptions {
  ModelOptions model;
  LevelOptions level;
  MachineOptions machine;
  std::string levels = "all";
  std::string profile_levels;  // empty: the last
  std::string profile_points = "first";
  std::string batch_sizes;  // empty: the model's
  std::string lengths;
  std::optional<int64_t> steps;
  int64_t warmup = 5;
  OutputOptions output;
  FormatOptions format;
  bool json = false;
  bool verbose = false;
  bool no_advice = false;
  int64_t trials = 1;
};

// The options, checked.
struct LabPlan {
  ModelChoice choice;
  std::vector<std::string> levels, profiled;
  std::vector<int64_t> batches, lengths;
  int64_t steps = 0;
  bool fit_together = false;  // all levels fit into half of the free memory
  std::string switches;
  report::OutputFormat format;

  size_t runs() const { return levels.size() * batches.size() * lengths.size(); }
};

measure::TrainingExperiment experiment(const LabOptions& o,
                                       const LabPlan& plan,
                                       const std::string& level,
                                       int64_t batch,
                                       int64_t length) {
  measure::TrainingExperiment e = make_experiment(
      plan.choice, o.machine, passes::Selection(level, plan.switches), plan.switches);
  e.step.batch_size = batch;
  e.step.sequence = length;
  e.warmup_steps = o.warmup;
  e.steps = plan.steps;
  return e;
}

bool fit_together(const LabOptions& o, const LabPlan& plan) {
  int64_t together = 0, available = 0;  // bytes; `together` is for all levels at their largest
  for (const std::string& level : plan.levels) {
    const auto backend = make_backend(o.machine, passes::Selection(level, plan.switches));
    expect_effect(plan.switches, passes::Serves::kTraining, *backend);
    int64_t most = 0;
    for (int64_t length : plan.lengths)
      for (int64_t batch : plan.batches)
        most = std::max(most, expect_fits(experiment(o, plan, level, batch, length), *backend));
    together += most;
    available = backend->available_bytes();
  }
  return together <= available / 2;  // leaves the rest to other programs
}

// Finds every error in the options before anything runs.
LabPlan check(const LabOptions& o) {
  LabPlan plan;
  plan.choice = choose_model(o.model);
  plan.format = o.format.chosen();
  if (o.profile_points != "first" && o.profile_points != "all")
    throw usage_error("[profile-points] expected first or all, got {}",
                      printable(o.profile_points));
  constexpr int64_t kSteps = 20, kGpuSteps = 48;
  plan.steps = o.steps.value_or(chosen_device(o.machine) == "cuda" ? kGpuSteps : kSteps);
  expect_steps(plan.steps, 2, o.warmup);
  plan.levels = parse_levels(o.levels, "level");
  plan.profiled = o.profile_levels.empty() ? std::vector{plan.levels.back()}
                                           : parse_levels(o.profile_levels, "profile-level");
  for (const std::string& level : plan.profiled)
    if (std::find(plan.levels.begin(), plan.levels.end(), level) == plan.levels.end())
      throw usage_error("[profile-level] expected one of the levels that run ({1}), got {0}", level,
                        o.levels);
  plan.batches = o.batch_sizes.empty() ? std::vector{plan.choice.batch_size}
                                       : parse_sizes(o.batch_sizes, "batch-size");
  plan.lengths =
      o.lengths.empty() ? std::vector{plan.choice.sequence} : parse_sizes(o.lengths, "seq-len");
  for (int64_t length : plan.lengths) expect_context(o.model, plan.choice, "seq-len", length);
  plan.switches = switch_text(o.level);
  plan.fit_together = fit_together(o, plan);
  return plan;
}

void say(const LabOptions& o, const std::string& text) {
  if (o.json) return;
  fmt::print("{}", text);
  std::fflush(stdout);
}

// Warns of the warnings from this one on.
void warn(const LabOptions& o,
          const record::LabRecord& lab,
          size_t from,
          const TerminalOptions& terminal) {
  const std::vector<std::string> rest(lab.warnings.begin() + static_cast<std::ptrdiff_t>(from),
                                      lab.warnings.end());
  if (!o.verbose && !o.json && !rest.empty())
    return fmt::print(stderr, "{} more warning{} (--verbose)\n", rest.size(),
                      rest.size() == 1 ? "" : "s");
  for (const std::string& each : rest)
    fmt::print(stderr, "{}",
               wrap_lines("warning: " + terminal_safe(each, kLongestMessage), terminal.columns));
}

// Trains at each level, batch size and length; the levels of a size take turns.
void climb(const LabOptions& o,
           const LabPlan& plan,
           measure::InterleavedSetting setting,
           const TerminalOptions& terminal,
           record::LabRecord& lab) {
  Progress progress("lab", static_cast<int64_t>(plan.runs()) * (o.warmup + plan.steps), "steps",
                    terminal);
  setting.fit = plan.fit_together;
  setting.listener = [&](const measure::TrainingExperiment& e, const train::StepEvent& event) {
    progress.tick(1, fmt::format("{}, loss {:.4f}", e.setting.level, event.result.loss));
  };
  for (int64_t length : plan.lengths)
    for (int64_t batch : plan.batches) {
      if (setting.is_stopped()) return;
      std::vector<measure::TrainingExperiment> experiments;
      for (const std::string& level : plan.levels)
        experiments.push_back(experiment(o, plan, level, batch, length));
      for (record::RunRecord& run : measure::run_interleaved(std::move(experiments), setting))
        lab.runs.push_back(std::move(run));
    }
}

// The profiled levels of the first batch size and length, which run first, or of all; if a Ctrl-C
// has left none of them, the last of those that ran.
void choose_detailed(const LabOptions& o, const LabPlan& plan, record::LabRecord& lab) {
  const size_t first_runs = std::min(plan.levels.size(), lab.runs.size());
  const size_t runs = o.profile_points == "all" ? lab.runs.size() : first_runs;
  for (size_t i = 0; i < runs; ++i)
    if (std::find(plan.profiled.begin(), plan.profiled.end(), lab.runs[i].setting.level) !=
        plan.profiled.end())
      lab.detailed.push_back(i);
  if (lab.detailed.empty()) lab.detailed.push_back(first_runs - 1);
}

// The last level that is reported in detail at the first point.
size_t advised(const LabPlan& plan, const record::LabRecord& lab) {
  return *std::find_if(lab.detailed.rbegin(), lab.detailed.rend(),
                       [&](size_t each) { return each < plan.levels.size(); });
}

// Says what is missing because of a Ctrl-C.
std::string interruption(const LabPlan& plan, const record::LabRecord& lab) {
  int64_t least = plan.steps;
  for (const record::RunRecord& run : lab.runs) least = std::min(least, std::ssize(run.losses));
  return fmt::format(
      "Ctrl-C ended this lab early: {} of {} runs were measured, each of at least {} of {} steps",
      lab.runs.size(), plan.runs(), least, plan.steps);
}

// The ladder and the operations of the first point; the files have all points that are profiled.
void show(const LabOptions& o,
          const LabPlan& plan,
          const record::LabRecord& lab,
          const TerminalOptions& terminal) {
  if (!o.verbose)
    return say(o, report::brief_heading(lab, terminal) + report::brief_ladder(lab, terminal) +
                      report::brief_operations(lab, lab.runs[advised(plan, lab)], terminal));
  say(o, report::heading_text(lab, terminal) + report::ladder_text(lab, terminal));
  for (size_t index : lab.detailed)
    if (index < plan.levels.size()) say(o, report::operations_text(lab, lab.runs[index], terminal));
}

// On a CPU one thread, half of the cores and all of them.
std::vector<int> other_threads(const record::Setting& present, int all_cores) {
  if (present.device == "cuda") return {};
  const int cores = std::max(all_cores, 1);
  std::vector<int> threads{1, cores / 2, cores};
  std::erase_if(threads, [&](int each) { return each < 1 || each == present.threads; });
  threads.erase(std::unique(threads.begin(), threads.end()), threads.end());
  return threads;
}

// The machine that runs an experiment.
MachineOptions machine_of(const LabOptions& o, const measure::TrainingExperiment& e) {
  MachineOptions machine = o.machine;
  if (e.setting.device != "cuda") machine.threads = e.setting.threads;
  return machine;
}

// Those in the cache; else, for other threads, the lab's, scaled.
std::shared_ptr<const cost::Ceilings> other_ceilings(const LabOptions& o,
                                                     const cost::Ceilings& ceilings,
                                                     const measure::TrainingExperiment& e) {
  const bool on_gpu = e.setting.device == "cuda";
  const OpenmpThreads threads(on_gpu ? 0 : e.setting.threads);
  if (auto known = known_ceilings(o.machine, e.selection.has("tf32")))
    return std::make_shared<cost::Ceilings>(std::move(*known));
  if (on_gpu) return nullptr;
  return std::make_shared<cost::Ceilings>(cost::at_threads(ceilings, e.setting.threads));
}

void try_out(const measure::TrainingExperiment& present,
             std::span<const bench::Advice> advice,
             const backends::Backend& backend,
             measure::InterleavedSetting setting,
             const TerminalOptions& terminal,
             record::LabRecord& lab) {
  const bench::AdviceTrials trials =
      bench::plan_trials(present, advice, expect_fits(present, backend), backend.available_bytes());
  Progress progress("trial of advice", trials.steps(), "steps", terminal);
  setting.listener = [&](const measure::TrainingExperiment& e, const train::StepEvent& event) {
    progress.tick(1, fmt::format("{}, loss {:.4f}", e.setting.level, event.result.loss));
  };
  lab.trials = bench::run_trials(trials, advice, setting);
  progress.hide();
  if (setting.is_stopped())
    lab.warnings.push_back("Ctrl-C ended this lab before the trial of its advice");
  record::check_trial_consistency(lab);
}

void advise(const LabOptions& o,
            const LabPlan& plan,
            const measure::InterleavedSetting& setting,
            const TerminalOptions& terminal,
            record::LabRecord& lab) {
  const measure::TrainingExperiment present =
      experiment(o, plan, plan.levels[advised(plan, lab)], plan.batches[0], plan.lengths[0]);
  const auto backend = make_backend(o.machine, present.selection);
  std::optional<Progress> progress;  // created when the number of changes is known
  size_t total = 0;
  bench::AdviceSearch search{
      .most = std::max(kAdvice, static_cast<size_t>(o.trials)),
      .gain_error = record::gain_error(lab.runs),
      .threads = other_threads(present.setting, lab.ceilings->machine.cores),
      .ceilings_of = [&](const auto& e) { return other_ceilings(o, *lab.ceilings, e); },
      .listener =
          [&](size_t, size_t of) {
            if (of != total) progress.emplace("advice", total = of, "changes", terminal);
            progress->tick(1);
          }};
  std::vector<bench::Advice> advice = bench::advise(present, *backend, *lab.ceilings, search);
  progress.reset();
  lab.seeks_advice = true;
  for (const bench::Advice& each : advice) lab.advice.push_back(each.record());
  if (o.verbose) say(o, report::advice_text(lab, terminal));
  if (advice.size() > static_cast<size_t>(o.trials)) advice.resize(static_cast<size_t>(o.trials));
  if (!advice.empty()) try_out(present, advice, *backend, setting, terminal, lab);
  say(o, o.verbose ? report::trials_text(lab, terminal) : report::brief_advice(lab, terminal));
}

// Returns false after a Ctrl-C.
bool run(const LabOptions& o, const AppContext& context) {
  const TerminalOptions& terminal = context.terminal;
  const LabPlan plan = check(o);
  record::LabRecord lab;
  lab.program = kProgram;
  lab.command = context.command;
  OutputFolder folder(o.output, "lab-out");
  const bool tf32 = passes::Selection(plan.levels.back(), plan.switches).has("tf32");
  auto measured_ceilings = [&](bool remeasure) {
    return machine_ceilings(
        o.machine, {.tf32 = tf32, .has_inference = false, .remeasure = remeasure}, terminal);
  };
  lab.ceilings = measured_ceilings(false);
  const InterruptRequest interrupt(
      "\nridge: the lab ends after this step; Ctrl-C again ends it at once\n");
  const measure::InterleavedSetting setting{
      .ceilings = lab.limits(),
      .make_backend = [&](const auto& e) { return make_backend(machine_of(o, e), e.selection); },
      .is_stopped = [&] { return interrupt.is_set(); }};
  climb(o, plan, setting, terminal, lab);
  if (lab.runs.empty()) {
    fmt::print(stderr, "Too few steps were measured for a summary.\n");
    return false;
  }
  const auto experiment_of = [&](const record::RunRecord& run) {
    return experiment(o, plan, run.setting.level, run.setting.batch_size, run.setting.sequence);
  };
  const bool stopped = interrupt.is_set();
  // Nobody who pressed Ctrl-C waits for another measurement.
  if (stopped ? bench::raise_ceilings(lab)
              : bench::correct_ceilings({.measure = [&] { return measured_ceilings(true); },
                                         .experiment = experiment_of,
                                         .make_backend = setting.make_backend},
                                        lab))
    keep_ceilings(*lab.ceilings, terminal);
  choose_detailed(o, plan, lab);
  if (stopped) lab.warnings.push_back(interruption(plan, lab));
  for (const record::RunRecord& each : lab.runs) record::check_consistency(each, lab);
  const size_t shown = lab.warnings.size();  // the heading shows these
  show(o, plan, lab, terminal);
  if (!o.no_advice && !stopped) advise(o, plan, setting, terminal, lab);
  lab.finished_at = utc_now();
  folder.commit(report::output_files(lab, plan.format));
  warn(o, lab, o.json ? 0 : shown, terminal);
  fmt::print("{}",
             o.json ? report::performance_summary(lab) : written_text(folder, terminal, o.verbose));
  return !interrupt.is_set();
}

void add_lab_options(Command app, LabOptions& o) {
  add_model_options(app, o.model);
  app.add_option("--level", o.levels,
                 "levels to compare: all, or a list of baseline, fused, kernels and compiled")
      .show_default();
  app.add_option(
      "--profile-level", o.profile_levels,
      "levels whose operation tables are shown: all, or a list (default: the last level)");
  app.add_option("--profile-points", o.profile_points,
                 "batch sizes and lengths whose operations are in the files: first or all")
      .show_default();
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
  app.add_option("--warmup", o.warmup, "training steps before step 0, which are not measured")
      .show_default();
  add_output_options(app, o.output,
                     "folder for the files (default: lab-out; if it exists, lab-out-2 ...)");
  add_format_options(app, o.format);
  app.add_option("--try", o.trials,
                 "pieces of advice to run, interleaved with the step that they change (0: none)")
      .show_default();
  app.add_flag("--no-advice", o.no_advice, "stop after the tables: no advice, and no trial of it");
  app.add_verbose_flag(o.verbose).excludes(app.add_json_flag(o.json));
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
    if (options->trials < 0 || options->trials > kMostTrials)
      throw usage_error("[try] expected 0 to {}, got {}", kMostTrials, options->trials);
    app.refuse_unused(
        {without_folder(options->output), {options->no_advice, "with --no-advice", {"--try"}}});
    if (!run(*options, context)) end_by_interrupt();
  });
}

}  // namespace ridge::apps
