// SPDX-License-Identifier: Apache-2.0
// ridge train: trains a preset, a configuration or a published model and prints one line per step.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "apps/inference_options.h"
#include "apps/model_options.h"
#include "apps/output_options.h"
#include "apps/rank_options.h"
#include "apps/subcommand.h"
#include "apps/this_machine.h"
#include "apps/training_options.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/printable.h"
#include "bench/attention_choice.h"
#include "bench/ceiling_check.h"
#include "bench/training_lab.h"
#include "files/atomic_folder.h"
#include "measure/run_exchange.h"
#include "measure/step_figures.h"
#include "measure/training_run.h"
#include "measure/training_samples.h"
#include "report/brief_report.h"
#include "report/exchange_text.h"
#include "report/kineto_trace.h"
#include "report/lab_files.h"
#include "report/output_files.h"
#include "report/rank_files.h"
#include "report/training_log.h"
#include "report/training_text.h"
#include "runtime/ranks.h"
#include "serve/session_choice.h"
#include "train/checkpoint.h"
#include "train/chosen_setup.h"
#include "train/observer.h"
#include "train/resume.h"
#include "train/starting_model.h"
#include "train/trained_model.h"
#include "train/training_data.h"
#include "train/validation.h"

namespace ridge::apps {
namespace {

struct TrainOptions {
  TrainingOptions training;
  train::TrainingDataOptions data;
  train::ObserverOptions observers;
  measure::SampleOptions samples;
  std::optional<int64_t> numerics;  // steps from one report to the next; 0: the last step alone
  train::ScheduleOptions schedule;
  RankOptions ranks;
  int64_t warmup = 5;  // without data of the user
  bool quiet = false;
  bool profile = false;
  bool verbose = false;
  bool json = false;
  OutputOptions output;
  FormatOptions format;
  std::optional<std::string> save;
  std::optional<std::string> log_folder;
};

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

// A training as its options choose it, and what it reads and reports.
struct Training {
  const TrainOptions& o;
  const TerminalOptions& terminal;
  TrainingChoice choice;
  train::TrainingSchedule schedule;
  report::OutputFormat format = {};
  measure::TrainingExperiment experiment = {};
  record::LabRecord lab = {};
  record::TrainingTotals totals = {};
  std::optional<Progress> loading = {};
  std::optional<train::StartingModel> model = {};  // with --model
  std::optional<train::TrainingData> data = {};
  std::optional<measure::TrainingSamples> samples = {};
  train::Resumption resumption = {};
  files::AtomicFolder::Existing replaces = files::AtomicFolder::Existing::kRefuse;  // --save

  bool instruments() const { return o.profile || o.output.folder; }
  int64_t warmup() const { return o.data.is_given() ? 0 : o.warmup; }
  // The data's, or without data the model's; may be null.
  const models::TokenizerFile* tokenizer() const {
    return data ? data->tokenizer() : model ? model->tokenizer() : nullptr;
  }
  // A training that goes on replaces the model that it saved when it was interrupted.
  files::AtomicFolder::Existing existing() const {
    return o.observers.resume && train::is_in_a_checkpoint(*o.save, o.observers.checkpoints)
               ? files::AtomicFolder::Existing::kReplace
               : files::AtomicFolder::Existing::kRefuse;
  }
  train::SpikeGuard* guard() { return schedule.guard ? &*schedule.guard : nullptr; }
};

void check(Training& t) {
  const TrainOptions& o = t.o;
  t.format = o.format.chosen();
  train::expect_steps(t.schedule.steps, t.instruments() ? 2 : 1, o.warmup);
  if (o.numerics && *o.numerics < 0)
    throw usage_error("[numerics] expected at least 0, got {}", *o.numerics);
  train::validate(o.observers);
  measure::validate(o.samples);
  if (o.save && t.choice.selection.has("lora") && !t.choice.model.file)
    throw usage_error(
        "[save] expected --model with +lora: an adapter needs a base that others can load");
  if (o.save && o.output.folder && is_within(*o.save, *o.output.folder))
    throw usage_error("[save] expected a folder outside that of --out, {}, got {}",
                      printable(*o.output.folder), printable(*o.save));
}

void describe(Training& t) {
  measure::TrainingExperiment& e = t.experiment;
  static_cast<train::TrainingSetup&>(e) =
      train::chosen_setup(t.choice, t.schedule, t.o.data, t.o.training.machine);
  e.step.separates_update = t.schedule.guard.has_value();
  e.step.loss_scaling = t.o.schedule.loss_scaling;
  e.warmup_steps = t.warmup();
  e.steps = t.schedule.steps;
  e.instrument = t.instruments();
  e.waits = false;
}

void open_model(Training& t) {
  constexpr int64_t kMasterBytes = 4;  // a weight in fp32
  const models::ModelFile& file = *t.choice.model.file;
  t.loading.emplace("load", kMasterBytes * file.config().parameters(), "bytes", t.terminal);
  t.model.emplace(t.choice.model.file, [&t](int64_t bytes) { t.loading->tick(bytes); });
  if (const std::string types = t.model->quantized_types(); !types.empty())
    fmt::print(stderr, "note: weights in {} are dequantized: training keeps them in fp32\n", types);
  t.experiment.weights = t.model->weights();
}

// The texts are generated with the passes of ridge generate. The process has chosen its threads and
// its instruction set already.
measure::SampleMachine sample_machine(const MachineOptions& machine) {
  MachineOptions same;
  same.device = machine.device;
  passes::Selection selection =
      serve::inference_selection({.on_gpu = is_gpu(machine)}, LevelOptions().level, "");
  auto backend = make_backend(same, selection);
  return {std::move(selection), std::move(backend)};
}

// The first rank says what all know.
train::CheckpointNote notes(const TrainOptions& o) {
  if (!o.ranks.is_first()) return [](const std::string&) {};
  return [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
}

void open_data(Training& t) {
  measure::TrainingExperiment& e = t.experiment;
  std::optional<Progress> progress;
  t.data.emplace(t.o.data, e.config.vocabulary, t.tokenizer(), [&](int64_t bytes, int64_t total) {
    if (bytes == 0) progress.emplace("tokenize", total, "bytes", t.terminal);
    progress->tick(bytes);
  });
  progress.reset();
  train::make_batches(*t.data, t.o.training.model, t.model ? &*t.model : nullptr, e);
  e.data = &t.data->batches();
  e.step.evaluates = !t.data->validation().empty();
  if (t.o.samples.are_on())
    t.samples.emplace(t.o.samples, sample_machine(t.o.training.machine), t.tokenizer(),
                      e.config.context);
  t.resumption.settings = train::checkpoint_settings(
      e, {t.o.schedule.spike_guard, t.o.data.pack, t.o.training.freeze}, t.data->identity());
  train::find_checkpoint(t.o.observers, e.config, t.resumption, notes(t.o));
  e.first_step = t.resumption.first_step();
}

// Prints the lines of a training above its progress bar.
class Screen {
 public:
  Screen(const Training& t, int64_t steps)
      : quiet_(t.o.quiet), json_(t.o.json), progress_("train", steps, "steps", t.terminal) {}

  void show_step(const std::string& line) {
    if (!quiet_) say(line);
  }
  void say(const std::string& line) {
    if (json_) return;
    progress_.hide();
    fmt::print("{}\n", line);
  }
  void tick(double loss) { progress_.tick(1, fmt::format("loss {:.4f}", loss)); }
  void hide() { progress_.hide(); }

 private:
  bool quiet_, json_;
  Progress progress_;
};

// Shows and logs what observers find.
struct Listeners {
  const Training& t;
  Screen& screen;
  std::optional<report::TrainingLog>& log;

  void operator()(const record::StepMetrics& step) const {
    if (log) log->add(step);
    screen.show_step(report::step_line(step, t.data.has_value()));
  }
  void operator()(const record::ValidationMetrics& validation) const {
    screen.say(report::validation_line(validation));
    if (log) log->add(validation);
  }
  void operator()(const record::TrainingSample& sample) const {
    screen.say(report::sample_line(sample));
    if (log) log->add(sample);
  }
  // The trainer counts the warm-up too.
  void operator()(const train::StepEvent& event) const {
    screen.tick(event.result.loss);
    if (!event.result.numerics) return;
    record::NumericsRecord numerics = *event.result.numerics;
    numerics.step = event.index;
    screen.say(report::numerics_text(numerics, t.terminal));
    if (log) log->add(numerics);
  }
};

// Collects what all ranks measure, if there are several and it was asked for.
std::unique_ptr<measure::RankMeter> rank_meter(const Training& t) {
  if (!t.o.ranks.joined || !t.instruments()) return nullptr;
  return std::make_unique<measure::RankMeter>(*t.o.ranks.joined, is_gpu(t.o.training.machine));
}

// Trains, with some steps instrumented if that was asked for. Returns what ranks exchanged, as the
// first one has it.
record::ExchangeRecord train_model(Training& t,
                                   backends::Backend& backend,
                                   const Listeners& listeners,
                                   const train::StopCheck& is_stopped) {
  const int64_t first = t.experiment.first_step;
  measure::TrainingRun run(t.experiment, backend, t.instruments() ? t.lab.limits() : nullptr);
  train::Trainer& trainer = run.trainer();
  train::add_model(t.model ? &*t.model : nullptr, t.resumption);
  if (t.o.ranks.joined) {
    runtime::expect_same_collectives(*t.o.ranks.joined, trainer.step_program());
    train::expect_same_training(t.resumption, t.o.ranks.joined->all());
  }
  const record::RunRecord plan = run.record();
  measure::StepFigures figures(plan, record::mfu_reference(t.lab, plan.setting),
                               t.experiment.step.optimizer, t.warmup(), listeners);
  train::StepListener steps(listeners);
  std::optional<train::Validation> validation;
  std::optional<files::SaveRequest> signal;
  std::optional<train::TrainingCheckpoints> checkpoints;
  std::optional<train::NumericsInspection> numerics;
  run.observe(figures);
  run.observe(steps);
  if (t.schedule.guard) run.observe(*t.schedule.guard);
  if (t.experiment.step.evaluates)
    run.observe(validation.emplace(trainer, t.data->validation(), t.o.observers.validate_every,
                                   first, listeners));
  if (t.samples) {
    t.samples->begin(trainer, first, listeners);
    run.observe(*t.samples);
  }
  if (!t.o.observers.checkpoints.empty()) {
    signal.emplace();
    checkpoints.emplace(
        t.o.observers, t.resumption,
        train::CheckpointedTraining{trainer, *t.data, t.guard(),
                                    validation ? &*validation : nullptr, backend.available_bytes()},
        notes(t.o),
        train::SaveRequest{[&signal] { return signal->is_set(); }, [&signal] { signal->clear(); }});
    run.observe(checkpoints->saver);
  }
  if (t.o.numerics) run.observe(numerics.emplace(trainer, *t.o.numerics, t.schedule.steps));
  const std::unique_ptr<measure::RankMeter> meter = rank_meter(t);
  if (meter) run.observe(*meter);
  run.run_round(t.schedule.steps, is_stopped);
  run.end();
  t.lab.runs.push_back(run.record());
  record::ExchangeRecord exchange;
  if (meter && measure::is_reportable(t.experiment, t.lab.runs[0]))
    exchange =
        meter->join(t.lab.runs[0], trainer.step_program(), t.lab.limits(),
                    [&](const record::RunRecord& own, int64_t begin_ns, record::RankLane& lane) {
                      report::write_lane(own, t.o.ranks.joined->place().ranks, begin_ns, lane);
                    });
  if (validation)
    for (const auto& [step, loss] : validation->losses())
      t.lab.runs[0].validations[step - first] = loss;
  t.totals = {figures.attended(), t.o.data.packing() == models::Packing::kDocuments,
              t.schedule.guard ? t.schedule.guard->skipped() : 0,
              checkpoints ? checkpoints->writer.blocked_ns() : 0};
  if (t.o.save) train::save_model(trainer, *t.o.save, t.tokenizer(), t.replaces);
  return exchange;
}

void report_run(Training& t,
                const record::ExchangeRecord& exchange,
                std::optional<OutputFolder>& folder) {
  record::RunRecord& run = t.lab.runs[0];
  const TrainOptions& o = t.o;
  if (t.instruments()) {
    if (bench::raise_ceilings(t.lab))
      measure::keep_ceilings(*t.lab.ceilings, [&](const std::string& note) {
        fmt::print(stderr, "{}", wrap_lines(note, t.terminal.columns));
      });
    record::check_consistency(run, t.lab);
  }
  if (!o.json) fmt::print("{}", report::training_summary(run, t.totals, t.terminal));
  if (!o.json && o.profile)
    fmt::print("{}", o.verbose ? report::operations_text(t.lab, run, t.terminal)
                               : report::brief_operations(t.lab, run, t.terminal));
  if (!o.json) fmt::print("{}", report::exchange_text(exchange, t.terminal));
  if (folder)
    folder->commit(
        report::with_ranks(t.lab, exchange, t.format, report::output_files(t.lab, t.format)));
  fmt::print(stderr, "{}", report::warning_lines(t.lab, 0, t.terminal));
  if (folder && !o.json)
    fmt::print("Wrote the report to {}.\n", terminal_safe(folder->path().string()));
  if (o.json) fmt::print("{}", report::performance_summary(t.lab));
}

// After the training was interrupted: the command that goes on with it.
void say_how_to_go_on(const Training& t) {
  const TrainOptions& o = t.o;
  if (o.observers.checkpoints.empty()) {
    if (o.data.is_given())
      fmt::print(stderr, "Without --checkpoints, this training cannot go on where it ended.\n");
    return;
  }
  fmt::print(stderr, "To go on, run: {}{}{}\n", terminal_safe(t.lab.command, kLongestMessage),
             o.observers.resume ? "" : " --resume",
             o.output.folder && !o.output.overwrite ? " --force" : "");
}

// A log takes ceilings as the cache has them; ranks that start side by side would find each other
// busy, and measure again and again.
cost::Ceilings ceilings(const Training& t) {
  const MachineOptions& machine = t.o.training.machine;
  const bool tf32 = t.choice.selection.has("tf32");
  if (!t.instruments())
    if (std::optional<cost::Ceilings> known = known_ceilings(machine, tf32)) return *known;
  return machine_ceilings(machine, {.tf32 = tf32, .has_inference = false}, t.terminal);
}

// Returns 0, or the signal that ended the training.
int run(Training& t) {
  const TrainOptions& o = t.o;
  check(t);
  std::optional<OutputFolder> folder;
  if (t.o.ranks.is_first()) folder = requested_folder(o.output);
  // Fails before hours of training if the folder cannot be written.
  if (o.save && t.o.ranks.is_first()) {
    t.replaces = t.existing();
    files::AtomicFolder probe(*o.save, t.replaces);
  }
  bench::choose_attention(o.training, t.choice);
  auto backend = make_backend(o.training.machine, t.choice.selection);
  expect_effect(t.choice.switches, passes::Serves::kTraining, *backend);
  describe(t);
  if (t.choice.model.file) open_model(t);
  if (o.data.is_given()) open_data(t);
  bench::expect_fits(t.experiment, *backend);
  if (t.instruments() || o.log_folder) t.lab.ceilings = ceilings(t);
  if (t.instruments()) t.lab.detailed = {0};
  const int64_t first = t.experiment.first_step, steps = t.schedule.steps;
  if (t.instruments() && steps - first == 1)
    throw usage_error(
        "[steps] expected at least {}: after the checkpoint of step {}, --profile and --out need "
        "two steps, one plain and one instrumented",
        first + 2, first);
  std::optional<report::TrainingLog> log;
  if (o.log_folder && t.o.ranks.is_first())
    log.emplace(*o.log_folder, o.observers.resume ? std::optional(first) : std::nullopt);
  const double limit_ns = t.schedule.limit_ns;
  Screen screen(t, limit_ns > 0 ? 0 : t.warmup() + std::max<int64_t>(steps - first, 1));
  const InterruptRequest interrupt(
      "\nridge: the training ends after this step; Ctrl-C again ends it at once\n",
      // A launcher that is told to end by Ctrl-C sends SIGTERM to the ranks.
      o.observers.checkpoints.empty() && !o.ranks.joined ? InterruptRequest::Signals::kCtrlC
                                                         : InterruptRequest::Signals::kAll);
  const double begin_ns = now_ns();
  const record::ExchangeRecord exchange = train_model(t, *backend, {t, screen, log}, [&] {
    const bool ends = interrupt.is_set() || (limit_ns > 0 && now_ns() - begin_ns > limit_ns);
    // All ranks end after the same step.
    return t.o.ranks.joined ? t.o.ranks.joined->any(ends) : ends;
  });
  screen.hide();
  t.lab.finished_at = utc_now();
  if (measure::is_reportable(t.experiment, t.lab.runs[0]))
    report_run(t, exchange, folder);
  else
    fmt::print(stderr, "Too few steps were measured for a summary.\n");
  if (interrupt.is_set()) say_how_to_go_on(t);
  return interrupt.is_set() ? interrupt.signal() : 0;
}

// Returns 0, or the signal that ended the training.
int run_joined(TrainOptions& o, const Command& app, const AppContext& context) {
  TrainingChoice choice = choose_training(o.training, app);
  if (!o.ranks.joined) {
    choice.add_switch(train::layout_switches({}, o.ranks));
    train::pipeline_of({}, o.ranks);
  } else {
    choice.share(*o.ranks.joined, o.ranks);
  }
  Training training{o, context.terminal, choice,
                    train::TrainingSchedule(o.schedule, choice.step, o.data.is_given())};
  training.lab.program = kProgram;
  training.lab.command = context.command;
  return run(training);
}

int run(TrainOptions& o, const Command& app, const AppContext& context) {
  join_ranks(o.ranks, o.training.machine);
  const std::string folder = o.log_folder                       ? *o.log_folder
                             : !o.observers.checkpoints.empty() ? o.observers.checkpoints
                                                                : o.output.folder.value_or("");
  return run_as_rank(o.ranks, folder, [&] { return run_joined(o, app, context); });
}

void add_options(Command app, TrainOptions& o) {
  add_training_options(app, o.training);
  add_attention_option(app, o.training.level.attention);
  add_model_file_option(app, o.training.model);
  add_tuning_options(app, o.training);
  add_training_data_options(app, o.data);
  add_observer_options(app, o.observers);
  add_sample_options(app, o.samples);
  add_micro_batch_option(app, o.training);
  add_length_options(app, o.schedule);
  app.add_option("--warmup", o.warmup, "training steps before step 0, without --data");
  app.add_flag(
      "--profile", o.profile,
      "instrument some steps (half of the first 16, then 2 in 64; on a GPU a sixteenth, at "
      "most 8) and print the largest operations");
  app.add_verbose_flag(o.verbose);
  add_output_options(
      app, o.output,
      "write the files of ridge lab to this folder (instruments steps, as --profile does)");
  add_format_options(app, o.format);
  app.add_option("--save", o.save, "write the trained model to this new folder, for transformers");
  app.add_option("--log-dir", o.log_folder,
                 "write loss, rates, MFU and memory of each step to this folder as it ends: events "
                 "for TensorBoard, and metrics.jsonl");
  app.add_option(
      "--numerics", o.numerics,
      "print the ranges of weights, gradients, moments and activations every so many steps and "
      "in the last one (0: only there), and what fp16 and bf16 would make of them; --log-dir keeps "
      "them in numerics.jsonl");
  app.add_flag("--quiet", o.quiet, "print validations and the summary, but no line per step");
  app.add_json_flag(o.json);
  add_optimizer_options(app, o.schedule);
  add_rank_options(app, o.ranks);
  add_nvtx_option(app, o.training.machine);
}

// Whether the losses are scaled.
bool scales(const TrainOptions& o) {
  const LevelOptions& level = o.training.level;
  return passes::Selection(level.level, switch_text(level)).has("autocast_f16");
}

std::vector<Mode> unused_options(const TrainOptions& o) {
  std::vector<Mode> modes = unused_schedule_options(o.schedule);
  const bool has_data = o.data.is_given();
  modes.insert(modes.end(),
               {without_folder(o.output),
                {!o.output.folder, "without --out", {"--gzip", "--format"}},
                without_checkpoints(o.observers),
                without_samples(o.samples),
                {o.data.validation.empty(),
                 "without --val-data",
                 {"--val-every", "--val-batches", "--keep-best"}},
                {!has_data,
                 "without --data",
                 {"--val-data", "--tokenizer", "--text-format", "--field", "--pack", "--seed",
                  "--checkpoints", "--sample-every"}},
                {has_data, "with --data", {"--warmup"}},
                {!scales(o), "without --dtype fp16", {"--loss-scale", "--loss-scale-interval"}},
                {o.json, "with --json", {"--quiet", "--verbose"}},
                {!o.profile, "without --profile", {"--verbose"}}});
  return modes;
}

}  // namespace

void register_train(Command program, const AppContext& context) {
  auto options = std::make_shared<TrainOptions>();
  Command app =
      program.add_subcommand("train", "Train a preset, a configuration or a published model");
  add_options(app, *options);
  app.footer(
      "Ctrl-C ends the training after the current step; the summary, --save, --out and --json are\n"
      "written as usual, then the program ends by SIGINT (exit code 130 in a shell). A second Ctrl-C\n"
      "ends it at once and writes nothing. With --checkpoints, the last line is the command that goes on.\n"
      "Examples:\n"
      "  ridge train                             the small model in fp32 at level compiled\n"
      "  ridge train --preset tiny --level baseline --steps 50\n"
      "  ridge train --dtype bf16 --micro-batches 4 --clip 1 --lr-warmup 100 --lr-decay 1000\n"
      "  ridge train --preset tiny --device cpu --dtype fp16 --loss-scale 4096 --clip 1\n"
      "  ridge train --preset tiny --steps 100 --numerics 50\n"
      "  ridge train --preset tiny --pass +recompute,-fuse_glu --profile\n"
      "  ridge train --preset tiny --device cpu --data-parallel 2 --steps 20\n"
      "  ridge train --preset tiny --device cpu --tensor-parallel 2 --steps 20\n"
      "  ridge train --data corpus.txt --tokenizer model.gguf --steps 50 --clip 1 --schedule cosine\n"
      "  ridge train --data corpus.txt --tokenizer model.gguf --val-data text.txt --checkpoints c\n"
      "  ridge train --data corpus.txt --tokenizer model.gguf --sample-every 10 --sample-prompt \"The \"\n"
      "  ridge train --data my_tokens --pack documents --steps 50\n"
      "  ridge train --model model.gguf --data corpus.txt --batch-size 1 --steps 20 --save tuned\n"
      "  ridge train --preset tiny --freeze '*embed_tokens*,*norm*' --steps 20\n"
      "  ridge train --model model.gguf --data corpus.txt --pass +lora --lora-rank 16 --save adapter\n"
      "  ridge train --steps 500 --log-dir runs/first      then: tensorboard --logdir runs\n"
      "  ridge train --preset tiny --steps 200 --save my_model && ridge logits my_model --ids 1,2,3");
  app.callback([options, app, &context] {
    app.refuse_unused(unused_options(*options));
    if (app.given("--model") && (app.given("--preset") || app.given("--config")))
      throw usage_error("[model] expected one of --model, --preset and --config, got two");
    if (const int signal = run(*options, app, context)) end_by_interrupt(signal);
  });
}

}  // namespace ridge::apps
