// SPDX-License-Identifier: Apache-2.0
// ridge lab: measures all levels on this machine, shows where the time goes, and gives advice.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

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
#include "record/contradictions.h"
#include "record/gain_error.h"
#include "report/brief_report.h"
#include "report/console_report.h"
#include "report/output_files.h"
#include "report/performance_summary.h"

namespace ridge::apps {
namespace {

constexpr size_t kAdvice = 3;
constexpr int64_t kMostTrials = 10;
constexpr int64_t kRoundSteps = 4;  // two plain and two instrumented steps

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

class Lab {
 public:
  Lab(const LabOptions& options, const AppContext& context)
      : o_(options), terminal_(context.terminal), choice_(choose_model(options.model)) {
    record_.program = kProgram;
    record_.command = context.command;
    check();
  }

  // Returns false after a Ctrl-C.
  bool run() {
    OutputFolder folder(o_.output, "lab-out");
    record_.ceilings = machine_ceilings(
        o_.machine, passes::Selection(levels_.back(), switches_).has("tf32"), terminal_);
    interrupt_.emplace("\nridge: the lab ends after this step; Ctrl-C again ends it at once\n");
    climb();
    if (record_.runs.empty()) {
      fmt::print(stderr, "Too few steps were measured for a summary.\n");
      return false;
    }
    choose_detailed();
    const bool stopped = is_stopped();
    if (stopped) record_.warnings.push_back(interruption());
    for (const record::RunRecord& run : record_.runs) record::add_doubts(run, record_);
    const size_t shown = record_.warnings.size();  // the heading shows these
    show();
    if (!o_.no_advice && !stopped) advise();
    record_.finished_at = utc_now();
    folder.commit(report::output_files(record_, format_));
    warn(o_.json ? 0 : shown);
    fmt::print("{}", o_.json ? report::performance_summary(record_)
                             : written_text(folder, terminal_, o_.verbose));
    return !is_stopped();
  }

 private:
  bool is_stopped() const { return interrupt_->is_set(); }

  // Of the warnings from this one on.
  void warn(size_t from) const {
    const std::vector<std::string> rest(
        record_.warnings.begin() + static_cast<std::ptrdiff_t>(from), record_.warnings.end());
    if (!o_.verbose && !o_.json && !rest.empty())
      return fmt::print(stderr, "{} more warning{} (--verbose)\n", rest.size(),
                        rest.size() == 1 ? "" : "s");
    for (const std::string& each : rest)
      fmt::print(stderr, "{}",
                 wrap_lines("warning: " + terminal_safe(each, kLongestMessage), terminal_.columns));
  }

  // The ladder and the operations of the first point; the files have all points that are profiled.
  void show() {
    if (!o_.verbose)
      return say(report::brief_heading(record_, terminal_) +
                 report::brief_ladder(record_, terminal_) +
                 report::brief_operations(record_, record_.runs[advised()], terminal_));
    say(report::heading_text(record_, terminal_) + report::ladder_text(record_, terminal_));
    for (size_t index : record_.detailed)
      if (index < levels_.size())
        say(report::operations_text(record_, record_.runs[index], terminal_));
  }

  // The last level that is reported in detail at the first point.
  size_t advised() const {
    return *std::find_if(record_.detailed.rbegin(), record_.detailed.rend(),
                         [&](size_t each) { return each < levels_.size(); });
  }

  // What is missing because of a Ctrl-C.
  std::string interruption() const {
    int64_t least = steps_;
    for (const record::RunRecord& run : record_.runs)
      least = std::min(least, static_cast<int64_t>(run.losses.size()));
    return fmt::format(
        "Ctrl-C ended this lab early: {} of {} runs were measured, each of at least {} of {} steps",
        record_.runs.size(), levels_.size() * batches_.size() * lengths_.size(), least, steps_);
  }

  // Finds every error in the options before anything runs.
  void check() {
    format_ = o_.format.chosen();
    if (o_.profile_points != "first" && o_.profile_points != "all")
      throw usage_error("[profile-points] expected first or all, got {}",
                        printable(o_.profile_points));
    constexpr int64_t kSteps = 20, kGpuSteps = 48;
    steps_ = o_.steps.value_or(chosen_device(o_.machine) == "cuda" ? kGpuSteps : kSteps);
    expect_steps(steps_, 2, o_.warmup);
    levels_ = parse_levels(o_.levels, "level");
    profiled_ = o_.profile_levels.empty() ? std::vector{levels_.back()}
                                          : parse_levels(o_.profile_levels, "profile-level");
    for (const std::string& level : profiled_)
      if (std::find(levels_.begin(), levels_.end(), level) == levels_.end())
        throw usage_error("[profile-level] expected one of the levels that run ({1}), got {0}",
                          level, o_.levels);
    batches_ = o_.batch_sizes.empty() ? std::vector{choice_.batch_size}
                                      : parse_sizes(o_.batch_sizes, "batch-size");
    lengths_ =
        o_.lengths.empty() ? std::vector{choice_.sequence} : parse_sizes(o_.lengths, "seq-len");
    for (int64_t length : lengths_) expect_context(o_.model, choice_, "seq-len", length);
    switches_ = switch_text(o_.level);
    int64_t together = 0, available = 0;  // bytes; `together` is for all levels at their largest
    for (const std::string& level : levels_) {
      passes::Selection selection(level, switches_);
      auto backend = make_backend(o_.machine, selection);
      expect_effect(switches_, passes::Serves::kTraining, *backend);
      int64_t most = 0;
      for (int64_t length : lengths_)
        for (int64_t batch : batches_)
          most = std::max(most, expect_fits(experiment(level, batch, length), *backend));
      together += most;
      available = backend->available_bytes();
    }
    fit_together_ = together <= available / 2;  // leaves the rest to other programs
  }

  void say(const std::string& text) {
    if (o_.json) return;
    fmt::print("{}", text);
    std::fflush(stdout);
  }

  measure::TrainingExperiment experiment(const std::string& level,
                                         int64_t batch,
                                         int64_t length) const {
    measure::TrainingExperiment e =
        make_experiment(choice_, o_.machine, passes::Selection(level, switches_), switches_);
    e.step.batch_size = batch;
    e.step.sequence = length;
    e.warmup_steps = o_.warmup;
    e.steps = steps_;
    return e;
  }

  // A level whose run has started.
  struct Rung {
    std::unique_ptr<backends::Backend> backend;
    std::unique_ptr<measure::TrainingRun> running;
    int threads = 0;  // 0: not the CPU's

    void run_round(int64_t steps, const train::StopCheck& stopped) {
      const OpenmpThreads turn(threads);
      running->run_round(steps, stopped);
    }
  };

  Rung start(const measure::TrainingExperiment& e, Progress& progress) {
    Rung rung;
    rung.threads = e.setting.device == "cuda" ? 0 : e.setting.threads;
    const OpenmpThreads threads(rung.threads);
    rung.backend = make_backend(machine_of(e), e.selection);
    rung.running = std::make_unique<measure::TrainingRun>(
        e, *rung.backend, record_.limits(),
        [&progress, level = e.setting.level](const measure::StepEvent& event) {
          progress.tick(1, fmt::format("{}, loss {:.4f}", level, event.result.loss));
        });
    return rung;
  }

  void climb() {
    int64_t runs = static_cast<int64_t>(levels_.size() * batches_.size() * lengths_.size());
    Progress progress("lab", runs * (o_.warmup + steps_), "steps", terminal_);
    for (int64_t length : lengths_)
      for (int64_t batch : batches_)
        if (!is_stopped()) climb(batch, length, progress);
  }

  void climb(int64_t batch, int64_t length, Progress& progress) {
    std::vector<measure::TrainingExperiment> experiments;
    for (const std::string& level : levels_)
      experiments.push_back(experiment(level, batch, length));
    for (record::RunRecord& run : measure(experiments, fit_together_, progress))
      record_.runs.push_back(std::move(run));
  }

  // Interleaves the experiments if they `fit` into memory together, so that a disturbance of the
  // machine affects all of them. An instrument serves only one program at a time. After a Ctrl-C, the
  // records are those of the experiments of which enough steps were measured.
  std::vector<record::RunRecord> measure(std::vector<measure::TrainingExperiment> experiments,
                                         bool fit,
                                         Progress& progress) {
    std::vector<record::RunRecord> records;
    std::vector<Rung> rungs;
    const train::StopCheck stopped = [this] { return is_stopped(); };
    auto finish = [&] {
      for (const Rung& rung : rungs)
        if (record::RunRecord made = rung.running->record();
            measure::is_reportable(experiments[0], made))
          records.push_back(std::move(made));
      rungs.clear();
    };
    for (measure::TrainingExperiment& e : experiments) {
      if (is_stopped()) break;
      if (!rungs.empty()) e.foreign_bytes = rungs.front().running->record().memory.foreign_bytes;
      rungs.push_back(start(e, progress));
      const bool interleaves =
          fit && !(e.instrument && rungs.back().backend->instrument() != nullptr);
      rungs.back().run_round(interleaves ? kRoundSteps : e.steps, stopped);
      if (!interleaves) finish();
    }
    while (!is_stopped() && !rungs.empty() && !rungs.back().running->is_done())
      for (Rung& rung : rungs) rung.run_round(kRoundSteps, stopped);
    finish();
    return records;
  }

  // The profiled levels of the first batch size and length, which run first, or of all; if a Ctrl-C
  // has left none of them, the last of those that ran.
  void choose_detailed() {
    const size_t first_runs = std::min(levels_.size(), record_.runs.size());
    const size_t runs = o_.profile_points == "all" ? record_.runs.size() : first_runs;
    for (size_t i = 0; i < runs; ++i)
      if (std::find(profiled_.begin(), profiled_.end(), record_.runs[i].setting.level) !=
          profiled_.end())
        record_.detailed.push_back(i);
    if (record_.detailed.empty()) record_.detailed.push_back(first_runs - 1);
  }

  void advise() {
    measure::TrainingExperiment present = experiment(levels_[advised()], batches_[0], lengths_[0]);
    auto backend = make_backend(o_.machine, present.selection);
    std::optional<Progress> progress;  // created when the number of changes is known
    size_t total = 0;
    bench::AdviceSearch search{.most = std::max(kAdvice, static_cast<size_t>(o_.trials)),
                               .gain_error = record::gain_error(record_.runs),
                               .threads = other_threads(present),
                               .ceilings_of = [this](const auto& e) { return other_ceilings(e); },
                               .listener =
                                   [&](size_t, size_t of) {
                                     if (of != total)
                                       progress.emplace("advice", total = of, "changes", terminal_);
                                     progress->tick(1);
                                   }};
    std::vector<bench::Advice> advice = bench::advise(present, *backend, *record_.ceilings, search);
    progress.reset();
    record_.seeks_advice = true;
    for (const bench::Advice& each : advice) record_.advice.push_back(each.record());
    if (o_.verbose) say(report::advice_text(record_, terminal_));
    if (advice.size() > static_cast<size_t>(o_.trials))
      advice.resize(static_cast<size_t>(o_.trials));
    if (!advice.empty()) try_out(present, advice, *backend);
    say(o_.verbose ? report::trials_text(record_, terminal_)
                   : report::brief_advice(record_, terminal_));
  }

  // On a CPU one thread, half of the cores and all of them.
  std::vector<int> other_threads(const measure::TrainingExperiment& present) const {
    if (present.setting.device == "cuda") return {};
    const int cores = std::max(record_.ceilings->machine.cores, 1);
    std::vector<int> threads{1, cores / 2, cores};
    std::erase_if(threads, [&](int each) { return each < 1 || each == present.setting.threads; });
    threads.erase(std::unique(threads.begin(), threads.end()), threads.end());
    return threads;
  }

  // The machine that runs an experiment.
  MachineOptions machine_of(const measure::TrainingExperiment& e) const {
    MachineOptions machine = o_.machine;
    if (e.setting.device != "cuda") machine.threads = e.setting.threads;
    return machine;
  }

  // Those in the cache; else, for other threads, the lab's, scaled.
  std::shared_ptr<const cost::Ceilings> other_ceilings(const measure::TrainingExperiment& e) const {
    const bool on_gpu = e.setting.device == "cuda";
    const OpenmpThreads threads(on_gpu ? 0 : e.setting.threads);
    if (auto known = known_ceilings(o_.machine, e.selection.has("tf32")))
      return std::make_shared<cost::Ceilings>(std::move(*known));
    if (on_gpu) return nullptr;
    return std::make_shared<cost::Ceilings>(cost::at_threads(*record_.ceilings, e.setting.threads));
  }

  // Runs the step without instruments as it is and with each change, by turns: all together if they
  // fit into memory, or else each change with the step as it is. Leaves out what a Ctrl-C cut short.
  void try_out(measure::TrainingExperiment before,
               const std::vector<bench::Advice>& advice,
               const backends::Backend& backend) {
    before.instrument = false;
    before.steps = std::max(steps_, record::kLeastClearSteps);
    std::vector<measure::TrainingExperiment> changed;
    int64_t together = expect_fits(before, backend);
    for (const bench::Advice& each : advice) {
      changed.push_back(each.changed);
      changed.back().instrument = false;
      changed.back().steps = before.steps;
      together += each.after_peak_bytes;
    }
    const bool fit = together <= backend.available_bytes() / 2;
    const auto runs = static_cast<int64_t>(fit ? 1 + advice.size() : 2 * advice.size());
    Progress progress("trial of advice", runs * (o_.warmup + before.steps), "steps", terminal_);
    for (size_t first = 0; first < changed.size(); first = fit ? changed.size() : first + 1) {
      std::vector<measure::TrainingExperiment> turns{before};
      const size_t end = fit ? changed.size() : first + 1;
      turns.insert(turns.end(), changed.begin() + static_cast<std::ptrdiff_t>(first),
                   changed.begin() + static_cast<std::ptrdiff_t>(end));
      const std::vector<record::RunRecord> measured = measure(turns, fit, progress);
      if (is_stopped()) break;
      for (size_t i = first; i < end; ++i)
        record_.trials.push_back({record_.advice[i], measured[0], measured[1 + i - first]});
    }
    progress.hide();
    if (is_stopped())
      record_.warnings.push_back("Ctrl-C ended this lab before the trial of its advice");
    record::add_trial_doubts(record_);
  }

  const LabOptions& o_;
  const TerminalOptions& terminal_;
  ModelChoice choice_;
  std::vector<std::string> levels_, profiled_;
  std::vector<int64_t> batches_, lengths_;
  int64_t steps_ = 0;
  bool fit_together_ = false;  // all levels fit into half of the free memory
  std::string switches_;
  std::optional<InterruptRequest> interrupt_;  // from when the first steps run
  report::OutputFormat format_;
  record::LabRecord record_;
};

void add_lab_options(Command app, LabOptions& o) {
  add_model_options(app, o.model);
  app.add_option("--level", o.levels, "levels: all, or a list such as baseline,compiled")
      .show_default();
  app.add_option("--profile-level", o.profile_levels,
                 "levels whose operation tables are shown (default: the last)");
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
  app.add_option("--warmup", o.warmup, "training steps before step 0").show_default();
  add_output_options(app, o.output,
                     "folder for the files (default: lab-out; if it exists, lab-out-2 ...)");
  add_format_options(app, o.format);
  app.add_option("--try", o.trials,
                 "pieces of advice to run, by turns with the step that they change (0: none)")
      .show_default();
  app.add_flag("--no-advice", o.no_advice, "stop after the tables");
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
    if (!Lab(*options, context).run()) end_by_interrupt();
  });
}

}  // namespace ridge::apps
