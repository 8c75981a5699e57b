// SPDX-License-Identifier: Apache-2.0
// ridge train: trains a preset or a configuration and prints a line a step.
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <optional>

#include "apps/machine_ceilings.h"
#include "apps/model_options.h"
#include "apps/output_folder.h"
#include "apps/subcommand.h"
#include "base/clock.h"
#include "base/error.h"
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

constexpr int64_t kMostMicroBatches = 65536;  // a step of hours: surely a typing error

struct TrainOptions {
  ModelOptions model;
  LevelOptions level;
  MachineOptions machine;
  int64_t steps = 20;
  int64_t warmup = 5;
  int64_t batch_size = 0;
  int64_t sequence = 0;
  int64_t micro_batches = 1;
  train::OptimizerOptions optimizer;
  bool profile = false;
  bool json = false;
  std::optional<std::string> out;
  bool force = false;
  std::optional<std::string> save;
};

void expect_number(const char* option, double value, double least) {
  if (!std::isfinite(value) || value < least)
    throw usage_error("[{}] expected a number >= {}, got {}", option, least, value);
}

void expect_schedule(const train::OptimizerOptions& o) {
  expect_number("lr", o.learning_rate, 0);
  expect_number("min-lr", o.minimum_rate, 0);
  expect_number("lr-warmup", static_cast<double>(o.warmup_steps), 0);
  expect_number("lr-decay", static_cast<double>(o.decay_steps), 0);
  if (o.minimum_rate > o.learning_rate)
    throw usage_error("[min-lr] expected at most the {} of --lr, got {}", o.learning_rate,
                      o.minimum_rate);
  // The cosine begins where the warm-up ends.
  if (o.decay_steps > 0 && o.decay_steps <= o.warmup_steps)
    throw usage_error("[lr-decay] expected a step after the {} of --lr-warmup, got {}",
                      o.warmup_steps, o.decay_steps);
}

class Training {
 public:
  Training(const TrainOptions& options, const Command& app, const AppContext& context)
      : o_(options), terminal_(context.terminal) {
    record_.program = kProgram;
    record_.command = context.command;
    prepare(app);
  }

  void run() {
    std::optional<OutputFolder> folder;
    if (o_.out) folder.emplace(*o_.out, o_.force);
    // Made and taken back: a name that cannot be written is known before hours of training.
    if (o_.save) files::AtomicFolder probe(*o_.save);
    auto backend = make_backend(o_.machine, experiment_.selection);
    experiment_.setting = make_setting(choice_.name, o_.machine, experiment_.selection, switches_);
    expect_fits(experiment_, *backend);
    if (experiment_.instrument)
      record_.ceilings = machine_ceilings(o_.machine, experiment_.selection.has("tf32"), terminal_);
    if (experiment_.instrument) record_.detailed = {0};
    Progress progress("train", o_.warmup + o_.steps, "steps", terminal_);
    if (experiment_.instrument)
      measure(*backend, progress);
    else
      train(*backend, progress);
    progress.hide();
    record_.finished_at = utc_now();
    if (!o_.json) summarize();
    if (folder) write(*folder);
    if (o_.json) fmt::print("{}", report::performance_summary(record_));
  }

 private:
  void prepare(const Command& app) {
    choice_ = choose_model(o_.model);
    switches_ = switch_text(o_.level);
    expect_schedule(o_.optimizer);
    expect_number("weight-decay", o_.optimizer.weight_decay, 0);
    expect_number("clip", o_.optimizer.clip_norm, 0);
    experiment_.selection = passes::Selection(o_.level.level, switches_);
    experiment_.config = choice_.config;
    experiment_.step.batch_size =
        chosen_size(app, "--batch-size", o_.batch_size, choice_.batch_size);
    experiment_.step.sequence = chosen_size(app, "--seq-len", o_.sequence, choice_.sequence);
    experiment_.step.micro_batches = chosen_size(app, "--micro-batches", o_.micro_batches, 1);
    if (o_.micro_batches > kMostMicroBatches)
      throw usage_error("[micro-batches] expected at most {}, got {}", kMostMicroBatches,
                        o_.micro_batches);
    experiment_.step.optimizer = o_.optimizer;
    experiment_.warmup_steps = o_.warmup;
    experiment_.steps = o_.steps;
    experiment_.instrument = o_.profile || o_.out;
    experiment_.waits = false;
    expect_steps(o_.steps, experiment_.instrument ? 2 : 1, o_.warmup);
  }

  // Read a batch, step, report: train::run_loop.
  void train(backends::Backend& backend, Progress& progress) {
    train::Trainer trainer(experiment_.config, experiment_.step, experiment_.selection, backend);
    train::WorkshopData data(experiment_.config.vocabulary, experiment_.step.sequence,
                             train::kWorkshopSeed);
    record::RunRecord run =
        measure::planned_training(experiment_, trainer.graphs(), backend, nullptr);
    train::run_loop(trainer, data, -o_.warmup, o_.steps,
                    [&](int64_t step, const train::StepResult& result) {
                      show({step, false, result}, progress);
                      if (step < 0) return;
                      run.losses.push_back(result.loss);
                      run.plain_wall_ns.push_back(result.elapsed_ns);
                    });
    run.memory.allocated_bytes = trainer.owned_bytes();
    run.memory.after = backend.taken_memory();
    record_.runs.push_back(std::move(run));
    save(trainer);
  }

  // The same under the clock, some steps instrumented.
  void measure(backends::Backend& backend, Progress& progress) {
    measure::TrainingRun run(experiment_, backend, record_.limits(),
                             [&](const measure::StepEvent& event) { show(event, progress); });
    run.run_round(o_.steps);
    record_.runs.push_back(run.record());
    save(run.trainer());
  }

  void show(const measure::StepEvent& event, Progress& progress) const {
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
    fmt::print(
        "{}: {} parameters, step {} (median of {}; {:.0f}% interval {} - {}), {} samples/s, {} "
        "tokens/s\n",
        terminal_safe(run.setting.str()), format_integer(run.parameters), format_ns(wall.median),
        wall.count, 100 * std::min(wall.coverage, 0.95), format_ns(wall.low), format_ns(wall.high),
        format_count(run.samples_per_s()), format_count(run.tokens_per_s()));
    fmt::print("model {} ({}); {} kernel calls a step; memory owned {}, resident peak {}\n",
               format_rate(run.palm_flops_per_s(), "FLOP/s"), "2 FLOPs per model MAC",
               format_integer(run.launches), format_bytes(run.memory.owned_bytes),
               format_bytes(run.memory.after.peak_bytes));
    if (o_.profile) fmt::print("{}", report::operations_text(record_, run, terminal_));
  }

  void save(train::Trainer& trainer) const {
    if (o_.save) train::save_model(trainer, *o_.save);
  }

  void write(OutputFolder& folder) {
    for (report::OutputFile& file : report::output_files(record_))
      folder.add(file.name, std::move(file.text));
    folder.commit();
    for (const std::string& warning : record_.warnings)
      fmt::print(stderr, "warning: {}\n", terminal_safe(warning));
    if (!o_.json) fmt::print("Written to {}.\n", terminal_safe(folder.path().string()));
  }

  const TrainOptions& o_;
  const TerminalOptions& terminal_;
  ModelChoice choice_;
  std::string switches_;
  measure::TrainingExperiment experiment_;
  record::LabRecord record_;
};

void add_optimizer_options(Command app, train::OptimizerOptions& o) {
  constexpr const char* kGroup = "Optimizer (AdamW)";
  app.add_option("--lr", o.learning_rate, "learning rate").show_default().group(kGroup);
  app.add_option("--weight-decay", o.weight_decay,
                 "decoupled weight decay, applied to every tensor")
      .show_default()
      .group(kGroup);
  app.add_option("--clip", o.clip_norm, "clip the gradients' norm to this (0: no clipping)")
      .show_default()
      .group(kGroup);
  app.add_option("--lr-warmup", o.warmup_steps, "steps over which the rate rises from 0")
      .show_default()
      .group(kGroup);
  app.add_option("--lr-decay", o.decay_steps,
                 "step at which a cosine reaches --min-lr (0: constant)")
      .show_default()
      .group(kGroup);
  app.add_option("--min-lr", o.minimum_rate, "learning rate at the end of the cosine")
      .show_default()
      .group(kGroup);
}

void add_options(Command app, TrainOptions& o) {
  add_model_options(app, o.model);
  app.add_option("--batch-size", o.batch_size,
                 "sequences of a micro-batch (default: the preset's)");
  app.add_option("--seq-len", o.sequence, "tokens a sequence (default: the preset's)");
  app.add_option("--micro-batches", o.micro_batches,
                 "sum the gradients of this many micro-batches before an update")
      .show_default();
  app.add_option("--steps", o.steps, "measured steps").show_default();
  app.add_option("--warmup", o.warmup, "training steps before step 0").show_default();
  app.add_flag("--profile", o.profile,
               "instrument some steps and print the operation tables: half of the first 16 steps, "
               "then two in 64; on a GPU one in sixteen, at most eight");
  app.add_option("--out", o.out,
                 "write the files of ridge lab into this folder (implies instrumented steps)");
  app.add_flag("--force", o.force, "overwrite files in an existing --out folder");
  app.add_option("--save", o.save,
                 "write the trained model into this new folder, for transformers");
  app.add_flag("--json", o.json, "print one JSON object on stdout and nothing else");
  add_level_options(app, o.level);
  add_optimizer_options(app, o.optimizer);
  add_machine_options(app, o.machine);
  add_nvtx_option(app, o.machine);
}

}  // namespace

void register_train(Command program, const AppContext& context) {
  auto options = std::make_shared<TrainOptions>();
  Command app =
      program.add_subcommand("train", "Train a preset or a configuration and print a line a step");
  add_options(app, *options);
  app.footer(
      "Examples:\n"
      "  ridge train                                        the small model, fp32, level compiled\n"
      "  ridge train --preset tiny --level baseline --steps 50\n"
      "  ridge train --dtype bf16 --micro-batches 4 --clip 1 --lr-warmup 100 --lr-decay 1000\n"
      "  ridge train --preset tiny --pass +recompute,-fuse_glu --profile\n"
      "  ridge train --preset tiny --steps 200 --save model/         then: ridge logits model/ "
      "--ids 1,2,3");
  app.callback([options, app, &context] { Training(*options, app, context).run(); });
}

}  // namespace ridge::apps
