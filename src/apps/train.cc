// SPDX-License-Identifier: Apache-2.0
// ridge train: trains a preset or a configuration and prints one line per step.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "apps/interrupt.h"
#include "apps/machine_ceilings.h"
#include "apps/model_options.h"
#include "apps/output_folder.h"
#include "apps/subcommand.h"
#include "apps/training_log.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/printable.h"
#include "base/process_memory.h"
#include "base/units.h"
#include "files/atomic_folder.h"
#include "measure/training_run.h"
#include "report/console_report.h"
#include "report/output_files.h"
#include "report/performance_summary.h"
#include "train/trained_model.h"
#include "train/training_loop.h"

namespace ridge::apps {
namespace {

struct TrainOptions {
  TrainingOptions training;
  int64_t steps = 20;
  int64_t warmup = 5;
  train::OptimizerOptions optimizer;
  bool profile = false;
  bool json = false;
  OutputOptions output;
  FormatOptions format;
  std::optional<std::string> save;
  std::optional<std::string> log_folder;
};

// A step with a larger rate or decay only overflows.
constexpr double kMostRate = 1000;

void expect_rate(const char* option, double value) {
  if (!(value >= 0 && value <= kMostRate))
    throw usage_error("[{}] expected a number from 0 to {}, got {}", option, kMostRate, value);
}

void expect_step(const char* option, int64_t step) {
  if (step < 0) throw usage_error("[{}] expected a step >= 0, got {}", option, step);
}

void expect_schedule(const train::OptimizerOptions& o) {
  expect_rate("lr", o.learning_rate);
  expect_rate("min-lr", o.minimum_rate);
  expect_step("lr-warmup", o.warmup_steps);
  expect_step("lr-decay", o.decay_steps);
  if (o.minimum_rate > o.learning_rate)
    throw usage_error("[min-lr] expected at most --lr, which is {}, got {}", o.learning_rate,
                      o.minimum_rate);
  // The cosine starts at the end of the warm-up.
  if (o.decay_steps > 0 && o.decay_steps <= o.warmup_steps)
    throw usage_error("[lr-decay] expected a step after --lr-warmup, which is {}, got {}",
                      o.warmup_steps, o.decay_steps);
}

// Whether the path is the folder or in it: each of the two outputs must be a folder of its own.
bool is_within(const std::filesystem::path& path, const std::filesystem::path& folder) {
  auto full = [](const std::filesystem::path& each) {
    std::error_code error;
    const std::filesystem::path whole = std::filesystem::absolute(each).lexically_normal();
    const std::filesystem::path real = std::filesystem::weakly_canonical(whole, error);
    return (error ? whole : real) / "";
  };
  const std::string inner = full(path).string(), outer = full(folder).string();
  return inner.starts_with(outer);
}

class Training {
 public:
  Training(const TrainOptions& options, const Command& app, const AppContext& context)
      : o_(options), terminal_(context.terminal), choice_(options.training, app) {
    record_.program = kProgram;
    record_.command = context.command;
    check();
  }

  // Returns false after a Ctrl-C.
  bool run() {
    std::optional<OutputFolder> folder = requested_folder(o_.output);
    // Fails before hours of training if the folder cannot be written.
    if (o_.save) files::AtomicFolder probe(*o_.save);
    const MachineOptions& machine = o_.training.machine;
    auto backend = make_backend(machine, choice_.selection);
    expect_effect(choice_.switches, passes::Serves::kTraining, *backend);
    experiment_ = make_experiment(choice_, machine);
    experiment_.step.optimizer = o_.optimizer;
    experiment_.warmup_steps = o_.warmup;
    experiment_.steps = o_.steps;
    experiment_.instrument = instruments();
    experiment_.waits = false;
    expect_fits(experiment_, *backend);
    // The saved model can read what it was trained on, also if that is longer than the preset's.
    int64_t& context = experiment_.config.context;
    context = std::max(context, experiment_.step.sequence);
    if (instruments() || o_.log_folder)
      record_.ceilings = machine_ceilings(machine, choice_.selection.has("tf32"), terminal_);
    if (instruments()) record_.detailed = {0};
    if (o_.log_folder) log_.emplace(*o_.log_folder);
    Progress progress("train", o_.warmup + o_.steps, "steps", terminal_);
    const InterruptRequest interrupt(
        "\nridge: the training ends after this step; Ctrl-C again ends it at once\n");
    const train::StopCheck is_stopped = [&] { return interrupt.is_set(); };
    if (instruments())
      measure(*backend, is_stopped, progress);
    else
      train(*backend, is_stopped, progress);
    progress.hide();
    record_.finished_at = utc_now();
    if (measure::is_reportable(experiment_, record_.runs[0]))
      report_run(folder);
    else
      fmt::print(stderr, "Too few steps were measured for a summary.\n");
    return !interrupt.is_set();
  }

 private:
  bool instruments() const { return o_.profile || o_.output.folder; }

  void report_run(std::optional<OutputFolder>& folder) {
    if (instruments()) record::add_doubts(record_.runs[0], record_);
    if (!o_.json) summarize();
    if (folder) folder->commit(report::output_files(record_, format_));
    for (const std::string& each : record_.warnings)
      fmt::print(stderr, "{}",
                 wrap_lines("warning: " + terminal_safe(each, kLongestMessage), terminal_.columns));
    if (folder && !o_.json)
      fmt::print("Wrote the report to {}.\n", terminal_safe(folder->path().string()));
    if (o_.json) fmt::print("{}", report::performance_summary(record_));
  }

  void check() {
    format_ = o_.format.chosen();
    expect_schedule(o_.optimizer);
    expect_rate("weight-decay", o_.optimizer.weight_decay);
    expect_clip(o_.optimizer.clip_norm);
    expect_steps(o_.steps, instruments() ? 2 : 1, o_.warmup);
    if (o_.save && o_.output.folder && is_within(*o_.save, *o_.output.folder))
      throw usage_error("[save] expected a folder outside that of --out, {}, got {}",
                        printable(*o_.output.folder), printable(*o_.save));
  }

  // Trains without measuring: read a batch, step, report.
  void train(backends::Backend& backend, const train::StopCheck& is_stopped, Progress& progress) {
    train::Trainer trainer(experiment_.config, experiment_.step, experiment_.selection, backend);
    train::WorkshopData data(experiment_.config.vocabulary, experiment_.step.sequence,
                             train::kWorkshopSeed);
    record::RunRecord run =
        measure::planned_training(experiment_, trainer.graphs(), backend, nullptr);
    if (log_) begin_log(run);
    const train::StepListener report = [&](int64_t step, const train::StepResult& result) {
      show({step, false, result}, progress);
      if (step < 0) return;
      run.losses.push_back(result.loss);
      run.plain_wall_ns.push_back(result.elapsed_ns);
      run.all_wall_ns.push_back(result.elapsed_ns);
    };
    train::run_loop(trainer, data, -o_.warmup, o_.steps, report, is_stopped);
    run.memory.allocated_bytes = trainer.owned_bytes();
    run.memory.after = backend.taken_memory();
    record_.runs.push_back(std::move(run));
    save(trainer);
  }

  // Trains with some steps instrumented.
  void measure(backends::Backend& backend, const train::StopCheck& is_stopped, Progress& progress) {
    measure::TrainingRun run(experiment_, backend, record_.limits(),
                             [&](const measure::StepEvent& event) { show(event, progress); });
    if (log_)
      begin_log(measure::planned_training(experiment_, run.trainer().graphs(), backend, nullptr));
    run.run_round(o_.steps, is_stopped);
    record_.runs.push_back(run.record());
    save(run.trainer());
  }

  void begin_log(const record::RunRecord& plan) {
    log_->begin(record_, plan, experiment_.step.optimizer, o_.warmup + 1);
  }

  void show(const measure::StepEvent& event, Progress& progress) {
    if (log_ && event.index >= 0) log_->add(event);
    const std::string loss = fmt::format("loss {:.4f}", event.result.loss);
    if (o_.json || event.index < 0) {
      progress.tick(1, loss);
      return;
    }
    progress.hide();
    double samples =
        static_cast<double>(experiment_.step.batch_size * experiment_.step.micro_batches);
    fmt::print("step {:4}  {}  {:8.2f} samples/s  {:>8}  {:>8}{}\n", event.index, loss,
               samples * 1e9 / event.result.elapsed_ns, format_ns(event.result.elapsed_ns),
               format_bytes(read_process_memory().resident_bytes),
               event.instrumented ? "  instrumented" : "");
    std::fflush(stdout);
    progress.tick(1, loss);
  }

  void summarize() const {
    const record::RunRecord& run = record_.runs[0];
    Summary wall = run.wall();
    fmt::print("mean loss {:.4f}\n", run.mean_loss());
    const std::string spread = wall.count < 2
                                   ? "one step"
                                   : fmt::format("median of {}; {:.0f}% interval {} - {}",
                                                 wall.count, 100 * std::min(wall.coverage, 0.95),
                                                 format_ns(wall.low), format_ns(wall.high));
    const std::string totals = fmt::format(
        "{}: {} parameters, step {} ({}), {} samples/s, {} tokens/s\n"
        "model {} (2 FLOPs per MAC); {} kernel calls per step; owned memory {}, peak resident {}",
        terminal_safe(run.setting.str()), format_integer(run.parameters), format_ns(wall.median),
        spread, format_count(run.samples_per_s()), format_count(run.tokens_per_s()),
        format_rate(run.palm_flops_per_s(), "FLOP/s"), format_integer(run.launches),
        format_bytes(run.memory.owned_bytes), format_bytes(run.memory.after.peak_bytes));
    // In a file the lines stay whole, for programs that read them.
    fmt::print("{}", terminal_.fit ? wrap_lines(totals, terminal_.columns) : totals + "\n");
    if (o_.profile) fmt::print("{}", report::operations_text(record_, run, terminal_));
  }

  void save(train::Trainer& trainer) const {
    if (o_.save) train::save_model(trainer, *o_.save);
  }

  const TrainOptions& o_;
  const TerminalOptions& terminal_;
  TrainingChoice choice_;
  report::OutputFormat format_;
  measure::TrainingExperiment experiment_;
  record::LabRecord record_;
  std::optional<TrainingLog> log_;
};

void add_optimizer_options(Command app, train::OptimizerOptions& o) {
  app = app.under("Optimizer (AdamW)");
  app.add_option("--lr", o.learning_rate, "learning rate").show_default();
  app.add_option("--weight-decay", o.weight_decay,
                 "decoupled weight decay, applied to every tensor")
      .show_default();
  add_clip_option(app, o.clip_norm);
  app.add_option("--lr-warmup", o.warmup_steps, "steps of linear warm-up from 0").show_default();
  app.add_option("--lr-decay", o.decay_steps,
                 "step at which the cosine decay reaches --min-lr (0: no decay)")
      .show_default();
  app.add_option("--min-lr", o.minimum_rate, "learning rate at the end of the decay")
      .show_default();
}

void add_options(Command app, TrainOptions& o) {
  add_training_options(app, o.training);
  add_micro_batch_option(app, o.training);
  app.add_option("--steps", o.steps, "measured steps").show_default();
  app.add_option("--warmup", o.warmup, "training steps before step 0").show_default();
  app.add_flag(
      "--profile", o.profile,
      "instrument some steps (half of the first 16, then 2 in 64; on a GPU a sixteenth, at "
      "most 8) and print the operation tables");
  add_output_options(
      app, o.output,
      "write the files of ridge lab to this folder (instruments steps, as --profile does)");
  add_format_options(app, o.format);
  app.add_option("--save", o.save, "write the trained model to this new folder, for transformers");
  app.add_option("--log-dir", o.log_folder,
                 "write loss, rates, MFU and memory of each step to this folder as it ends: events "
                 "for TensorBoard, and metrics.jsonl");
  app.add_json_flag(o.json);
  add_optimizer_options(app, o.optimizer);
  add_nvtx_option(app, o.training.machine);
}

}  // namespace

void register_train(Command program, const AppContext& context) {
  auto options = std::make_shared<TrainOptions>();
  Command app = program.add_subcommand(
      "train", "Train a preset or a configuration and print one line per step");
  add_options(app, *options);
  app.footer(
      "Ctrl-C ends the training after the current step; the summary, --save, --out and --json are\n"
      "written as usual, then the program ends by SIGINT (exit code 130 in a shell). A second Ctrl-C\n"
      "ends it at once and writes nothing.\n"
      "Examples:\n"
      "  ridge train                             the small model in fp32 at level compiled\n"
      "  ridge train --preset tiny --level baseline --steps 50\n"
      "  ridge train --dtype bf16 --micro-batches 4 --clip 1 --lr-warmup 100 --lr-decay 1000\n"
      "  ridge train --preset tiny --pass +recompute,-fuse_glu --profile\n"
      "  ridge train --steps 500 --log-dir runs/first      then: tensorboard --logdir runs\n"
      "  ridge train --preset tiny --steps 200 --save my_model && ridge logits my_model --ids 1,2,3");
  app.callback([options, app, &context] {
    app.refuse_unused({without_folder(options->output),
                       {!options->output.folder, "without --out", {"--gzip", "--format"}},
                       {options->optimizer.decay_steps == 0, "without --lr-decay", {"--min-lr"}}});
    if (!Training(*options, app, context).run()) end_by_interrupt();
  });
}

}  // namespace ridge::apps
