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
#include "base/printable.h"
#include "bench/advice.h"
#include "record/contradictions.h"
#include "report/console_report.h"
#include "report/output_files.h"
#include "report/performance_summary.h"

namespace ridge::apps {
namespace {

constexpr size_t kAdvice = 3;
constexpr int64_t kRoundSteps = 4;       // two plain and two instrumented steps
constexpr int64_t kLeastTrialSteps = 6;  // with fewer, an interval covers less than 95%

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
  bool no_advice = false;
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
    say(report::heading_text(record_, terminal_) + report::ladder_text(record_, terminal_));
    // The terminal shows the first point alone; the files have all that are profiled.
    for (size_t index : record_.detailed)
      if (index < levels_.size())
        say(report::operations_text(record_, record_.runs[index], terminal_));
    if (!o_.no_advice && !stopped) advise();
    record_.finished_at = utc_now();
    folder.commit(report::output_files(record_, format_));
    for (size_t i = o_.json ? 0 : shown; i < record_.warnings.size(); ++i)
      fmt::print(stderr, "{}",
                 wrap_lines("warning: " + terminal_safe(record_.warnings[i], kLongestMessage),
                            terminal_.columns));
    fmt::print("{}",
               o_.json ? report::performance_summary(record_) : written_text(folder, terminal_));
    return !is_stopped();
  }

 private:
  bool is_stopped() const { return interrupt_->is_set(); }

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
  };

  Rung start(const measure::TrainingExperiment& e, Progress& progress) {
    Rung rung;
    rung.backend = make_backend(o_.machine, e.selection);
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
      rungs.back().running->run_round(interleaves ? kRoundSteps : e.steps, stopped);
      if (!interleaves) finish();
    }
    while (!is_stopped() && !rungs.empty() && !rungs.back().running->is_done())
      for (Rung& rung : rungs) rung.running->run_round(kRoundSteps, stopped);
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
    // The last level that is reported in detail at the first point.
    const size_t index = *std::find_if(record_.detailed.rbegin(), record_.detailed.rend(),
                                       [&](size_t each) { return each < levels_.size(); });
    measure::TrainingExperiment present = experiment(levels_[index], batches_[0], lengths_[0]);
    auto backend = make_backend(o_.machine, present.selection);
    std::optional<Progress> progress;  // created when the number of changes is known
    auto count = [&](size_t, size_t of) {
      if (!progress) progress.emplace("advice", static_cast<int64_t>(of), "changes", terminal_);
      progress->tick(1);
    };
    std::vector<bench::Advice> advice =
        bench::advise(present, *backend, *record_.ceilings, kAdvice, count);
    progress.reset();
    record_.seeks_advice = true;
    for (const bench::Advice& each : advice) record_.advice.push_back(each.record());
    say(report::advice_text(record_, terminal_));
    if (advice.empty()) return;
    if (try_first(present, advice[0].changed, *backend))
      say(report::trial_text(record_, terminal_));
  }

  // Runs the step before and after the change, interleaved, without instruments. Returns false after
  // a Ctrl-C; there is no trial then.
  bool try_first(measure::TrainingExperiment before,
                 measure::TrainingExperiment after,
                 const backends::Backend& backend) {
    before.instrument = after.instrument = false;
    before.steps = after.steps = std::max(steps_, kLeastTrialSteps);
    const int64_t together = expect_fits(before, backend) + expect_fits(after, backend);
    Progress progress("first advice", 2 * (o_.warmup + before.steps), "steps", terminal_);
    std::vector<record::RunRecord> runs =
        measure({before, after}, together <= backend.available_bytes() / 2, progress);
    progress.hide();
    if (is_stopped()) {
      record_.warnings.push_back("Ctrl-C ended this lab before the trial of its first advice");
      return false;
    }
    record_.trial = record::TrialRecord{record_.advice[0], runs[0], runs[1]};
    record::add_trial_doubts(record_);
    return true;
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
  app.add_flag("--no-advice", o.no_advice, "stop after the tables");
  app.add_json_flag(o.json);
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
      "  ridge lab --batch-size 4,8,16 --seq-len 128,256 --level baseline,compiled\n"
      "  ridge lab --dtype bf16 --pass=-fuse_glu --out results");
  app.callback([options, app, &context] {
    app.refuse_unused({without_folder(options->output)});
    if (!Lab(*options, context).run()) end_by_interrupt();
  });
}

}  // namespace ridge::apps
