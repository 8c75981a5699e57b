// SPDX-License-Identifier: Apache-2.0
// ridge train: trains a preset, a configuration or a published model and prints one line per step.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/interrupt.h"
#include "apps/machine_ceilings.h"
#include "apps/model_options.h"
#include "apps/output_folder.h"
#include "apps/starting_model.h"
#include "apps/subcommand.h"
#include "apps/training_data.h"
#include "apps/training_log.h"
#include "apps/training_pauses.h"
#include "apps/training_samples.h"
#include "apps/training_schedule.h"
#include "apps/tuning_files.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/printable.h"
#include "base/process_memory.h"
#include "base/units.h"
#include "files/atomic_folder.h"
#include "measure/training_run.h"
#include "planning/step_plan.h"
#include "report/brief_report.h"
#include "report/console_report.h"
#include "report/numerics_report.h"
#include "report/output_files.h"
#include "report/performance_summary.h"
#include "train/trained_model.h"
#include "train/training_loop.h"

namespace ridge::apps {
namespace {

struct TrainOptions {
  TrainingOptions training;
  TrainingDataOptions data;
  PauseOptions pauses;
  SampleOptions samples;
  std::optional<int64_t> numerics;  // steps from one report to the next; 0: the last step alone
  ScheduleOptions schedule;
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

class Training {
 public:
  Training(const TrainOptions& options, const Command& app, const AppContext& context)
      : o_(options),
        terminal_(context.terminal),
        choice_(options.training, app),
        schedule_(options.schedule, app, choice_.step, options.data.is_given()) {
    choice_.step.micro_batches = schedule_.micro_batches;
    record_.program = kProgram;
    record_.command = context.command;
    check();
  }

  // Returns 0, or the signal that ended the training.
  int run() {
    std::optional<OutputFolder> folder = requested_folder(o_.output);
    // Fails before hours of training if the folder cannot be written.
    if (o_.save) files::AtomicFolder probe(*o_.save);
    const MachineOptions& machine = o_.training.machine;
    choose_attention();
    auto backend = make_backend(machine, choice_.selection);
    expect_effect(choice_.switches, passes::Serves::kTraining, *backend);
    experiment_ = make_experiment(choice_, machine);
    experiment_.step.optimizer = schedule_.optimizer;
    experiment_.step.packing = o_.data.packing();
    experiment_.step.separates_update = schedule_.guard.has_value();
    experiment_.step.loss_scaling = o_.schedule.loss_scaling;
    experiment_.warmup_steps = warmup();
    experiment_.steps = schedule_.steps;
    experiment_.instrument = instruments();
    experiment_.waits = false;
    // The saved model can read what it was trained on, also if that is longer than the preset's.
    int64_t& context = experiment_.config.context;
    context = std::max(context, experiment_.step.sequence);
    if (choice_.model.file) open_model();
    if (o_.data.is_given()) open_data();
    expect_fits(experiment_, *backend);
    if (instruments() || o_.log_folder)
      record_.ceilings = machine_ceilings(
          machine, {.tf32 = choice_.selection.has("tf32"), .has_inference = false}, terminal_);
    if (instruments()) record_.detailed = {0};
    const int64_t first = pauses_ ? pauses_->first_step() : 0;
    experiment_.first_step = first;
    if (instruments() && schedule_.steps - first == 1)
      throw usage_error(
          "[steps] expected at least {}: after the checkpoint of step {}, --profile and --out need "
          "two steps, one plain and one instrumented",
          first + 2, first);
    if (o_.log_folder)
      log_.emplace(*o_.log_folder, o_.pauses.resume ? std::optional(first) : std::nullopt);
    const int64_t left = std::max<int64_t>(schedule_.steps - first, 1);
    Progress progress("train", schedule_.limit_ns > 0 ? 0 : warmup() + left, "steps", terminal_);
    progress_ = &progress;
    const InterruptRequest interrupt(
        "\nridge: the training ends after this step; Ctrl-C again ends it at once\n",
        o_.pauses.checkpoints.empty() ? InterruptRequest::Signals::kCtrlC
                                      : InterruptRequest::Signals::kAll);
    const double begin_ns = now_ns();
    const train::StopCheck is_stopped = [&] {
      const bool is_over = schedule_.limit_ns > 0 && now_ns() - begin_ns > schedule_.limit_ns;
      return interrupt.is_set() || is_over;
    };
    train(*backend, is_stopped, progress);
    progress.hide();
    record_.finished_at = utc_now();
    if (measure::is_reportable(experiment_, record_.runs[0]))
      report_run(folder);
    else
      fmt::print(stderr, "Too few steps were measured for a summary.\n");
    return interrupt.is_set() ? interrupt.signal() : 0;
  }

 private:
  int64_t warmup() const { return o_.data.is_given() ? 0 : o_.warmup; }

  void open_model() {
    start_.emplace(choice_.model.file, terminal_);
    start_->tell_types();
    experiment_.weights = start_->weights();
  }

  // The data's, or without data the model's; may be null.
  const models::TokenizerFile* tokenizer() const {
    return data_ ? data_->tokenizer() : start_ ? start_->tokenizer() : nullptr;
  }

  void open_data() {
    models::ModelConfig& config = experiment_.config;
    data_.emplace(o_.data, config.vocabulary, tokenizer(), terminal_);
    // A preset is a size; it takes the vocabulary of the data.
    if (o_.training.model.is_preset() && data_->vocabulary() > 0)
      config.vocabulary = data_->vocabulary();
    const models::TokenizerFile* known = start_ ? start_->tokenizer() : nullptr;
    data_->make_batches(experiment_.step.sequence,
                        {config.vocabulary, known ? std::ssize(known->spec.tokens) : 0},
                        experiment_.step.batch_size);
    experiment_.data = &data_->batches();
    experiment_.step.evaluates = !data_->validation().empty();
    pauses_.emplace(
        o_.pauses, *data_, schedule_.guard ? &*schedule_.guard : nullptr, settings(),
        [this](const std::string& line) { say(line); },
        [this](const TrainingPauses::Validation& validation) {
          if (log_) log_->add_validation(validation.step, validation.loss);
        },
        sampling());
    pauses_->find(config, experiment_.step.sequence);
  }

  TrainingPauses::Sampling sampling() {
    if (!o_.samples.are_on()) return {};
    samples_.emplace(o_.samples, o_.training.machine, tokenizer(), experiment_.config);
    return {[this](int64_t step) { return samples_->is_due(step); },
            [this](const train::Trainer& trainer, int64_t step) { sample(trainer, step); }};
  }

  void sample(const train::Trainer& trainer, int64_t step) {
    const TrainingSamples::Sample made = samples_->sample(trainer, step);
    const std::string text = made.fault.empty()
                                 ? "sample  " + one_line(samples_->prompt() + made.text)
                                 : "no sample: " + made.fault;
    say(fmt::format("step {:4}  {}", step, terminal_safe(text, kLongestMessage)));
    if (log_) log_->add_sample(samples_->prompt(), made);
  }

  static std::string one_line(std::string text) {
    for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2)
      text.replace(at, 1, "\\n");
    return text;
  }

  // What a checkpoint is compared with, beside its model.
  nlohmann::ordered_json settings() const {
    const record::Setting& s = experiment_.setting;
    const train::StepOptions& step = experiment_.step;
    const train::OptimizerOptions& a = step.optimizer;
    return {{"batch_size", step.batch_size},
            {"seq_len", step.sequence},
            {"micro_batches", step.micro_batches},
            {"level", s.level},
            {"switches", s.switches},
            {"dtype", s.dtype},
            {"device", s.device},
            {"isa", s.isa},
            {"threads", s.threads},
            {"lr", a.learning_rate},
            {"weight_decay", a.weight_decay},
            {"clip", a.clip_norm},
            {"lr_warmup", a.warmup_steps},
            {"lr_decay", a.decay_steps},
            {"lr_decay_begin", a.decay_begin},
            {"lr_decay_shape", a.decay_shape == train::DecayShape::kCosine ? "cosine" : "linear"},
            {"min_lr", a.minimum_rate},
            {"decay", a.decays_all ? "all" : "matrices"},
            {"spike_guard", o_.schedule.spike_guard},
            {"pack", o_.data.pack},
            {"freeze", o_.training.freeze},
            {"lora", lora_settings()},
            {"loss_scale_interval",
             scales() ? nlohmann::ordered_json(o_.schedule.loss_scaling.growth_interval) : nullptr},
            {"data", data_->identity()}};
  }

  bool scales() const { return choice_.selection.has("autocast_f16"); }

  nlohmann::ordered_json lora_settings() const {
    if (!choice_.selection.has("lora")) return nullptr;
    const passes::LoraOptions& lora = experiment_.step.lora;
    return {{"rank", lora.rank}, {"alpha", lora.alpha}, {"targets", lora.targets}};
  }

  // Prints a line between those of the steps.
  void say(const std::string& line) {
    if (o_.json) return;
    progress_->hide();
    fmt::print("{}\n", line);
    std::fflush(stdout);
  }

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
    expect_steps(schedule_.steps, instruments() ? 2 : 1, o_.warmup);
    if (o_.numerics && *o_.numerics < 0)
      throw usage_error("[numerics] expected at least 0, got {}", *o_.numerics);
    ridge::apps::check(o_.pauses);
    ridge::apps::check(o_.samples);
    if (o_.save && choice_.selection.has("lora") && !choice_.model.file)
      throw usage_error(
          "[save] expected --model with +lora: an adapter needs a base that others can load");
    if (o_.save && o_.output.folder && is_within(*o_.save, *o_.output.folder))
      throw usage_error("[save] expected a folder outside that of --out, {}, got {}",
                        printable(*o_.output.folder), printable(*o_.save));
  }

  // Trains, with some steps instrumented if that was asked for.
  void train(backends::Backend& backend, const train::StopCheck& is_stopped, Progress& progress) {
    measure::TrainingRun run(experiment_, backend, instruments() ? record_.limits() : nullptr,
                             [&](const measure::StepEvent& event) { show(event, progress); });
    train::Trainer& trainer = run.trainer();
    if (pauses_)
      pauses_->resume(trainer, start_ ? start_->identity() : nlohmann::ordered_json(),
                      backend.available_bytes());
    if (schedule_.guard) guard(trainer);
    if (log_) begin_log(planning::plan_step(experiment_, trainer.graphs(), backend, nullptr));
    run.set_pauses(with_numerics(pauses_ ? pauses_->pauses(trainer) : train::Pauses(), trainer));
    run.run_round(schedule_.steps, is_stopped);
    if (pauses_) pauses_->finish(trainer, run.finished());
    record_.runs.push_back(run.record());
    save(trainer);
  }

  bool is_inspected(int64_t step) const {
    if (!o_.numerics || step < 0) return false;
    const bool is_last = step + 1 == schedule_.steps;
    return is_last || (*o_.numerics > 0 && (step + 1) % *o_.numerics == 0);
  }

  // Inspects steps after what is done before them.
  train::Pauses with_numerics(train::Pauses others, train::Trainer& trainer) const {
    if (!o_.numerics) return others;
    return {[this, others](int64_t next) { return others.is_due(next) || is_inspected(next); },
            [this, others, &trainer](int64_t next) {
              if (others.is_due(next)) others.pause(next);
              if (is_inspected(next)) trainer.inspect_next();
            }};
  }

  void guard(train::Trainer& trainer) {
    trainer.guard([this](double loss) {
      if (!schedule_.guard->is_spike(loss)) return false;
      if (schedule_.stops_at_spikes)
        throw runtime_error(
            "[spike-guard] the loss {} is {:.1f} standard deviations above those before", loss,
            schedule_.guard->deviations());
      ++skipped_;
      return true;
    });
  }

  void begin_log(const record::RunRecord& plan) {
    log_->begin(record_, plan, experiment_.step.optimizer, warmup() + 1);
  }

  void show(const measure::StepEvent& event, Progress& progress) {
    if (log_ && event.index >= 0) log_->add(event);
    if (event.index >= 0) attended_ += event.result.attended;
    const std::string loss = fmt::format("loss {:.4f}", event.result.loss);
    if (o_.json || o_.quiet || event.index < 0) {
      progress.tick(1, loss);
      return show_numerics(event);
    }
    progress.hide();
    fmt::print("step {:4}  {}  {}{}{}\n", event.index, loss, rates(event),
               event.instrumented ? "  instrumented" : "", fate(event.result));
    std::fflush(stdout);
    progress.tick(1, loss);
    show_numerics(event);
  }

  // The trainer counts the warm-up too.
  void show_numerics(const measure::StepEvent& event) {
    if (!event.result.numerics) return;
    record::NumericsRecord numerics = *event.result.numerics;
    numerics.step = event.index;
    say(report::numerics_text(numerics, terminal_));
    if (log_) log_->add_numerics(numerics);
  }

  // Why the step changed no weight; empty if it did.
  static std::string fate(const train::StepResult& result) {
    if (result.overflowed)
      return fmt::format("  skipped: gradients overflowed, loss scale now {}", result.loss_scale);
    return result.skipped ? "  skipped" : "";
  }

  // The rest of a step's line.
  std::string rates(const measure::StepEvent& event) const {
    const train::StepOptions& step = experiment_.step;
    const double samples =
        static_cast<double>(step.batch_size * step.micro_batches) * 1e9 / event.result.elapsed_ns;
    const std::string end = fmt::format("{:>8}  {:>8}", format_ns(event.result.elapsed_ns),
                                        format_bytes(read_process_memory().resident_bytes));
    if (!data_) return fmt::format("{:8.2f} samples/s  {}", samples, end);
    const std::string norm = event.result.gradient_norm < 0
                                 ? ""
                                 : fmt::format("norm {:.3f}  ", event.result.gradient_norm);
    return fmt::format("{}rate {:.2e}  {:>7} tokens/s  {}", norm,
                       train::learning_rate(step.optimizer, event.index + 1),
                       format_count(samples * static_cast<double>(step.sequence)), end);
  }

  void summarize() const {
    const record::RunRecord& run = record_.runs[0];
    Summary wall = run.wall();
    fmt::print("mean loss {:.4f}\n", run.mean_loss());
    if (o_.data.packing() == models::Packing::kDocuments && attended_ > 0)
      fmt::print(
          "attention stayed inside documents: {:.1f}% of the keys of whole rows; FLOPs and MFU "
          "count whole rows\n",
          100 * attended_ / static_cast<double>(run.losses.size()));
    if (skipped_ > 0) fmt::print("{} updates were skipped\n", skipped_);
    if (run.loss_scale > 0)
      fmt::print("loss scale {}; {} of {} steps were skipped because gradients overflowed\n",
                 run.loss_scale, run.overflows, run.losses.size());
    if (pauses_ && pauses_->blocked_ns() > 0)
      fmt::print("training waited {} for checkpoints\n", format_ns(pauses_->blocked_ns()));
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
    if (o_.profile)
      fmt::print("{}", o_.verbose ? report::operations_text(record_, run, terminal_)
                                  : report::brief_operations(record_, run, terminal_));
  }

  // --attention, as one more switch of passes.
  void choose_attention() {
    const models::ModelConfig& config = choice_.model.config;
    bench::AttentionCall call{false,
                              true,
                              choice_.step.batch_size,
                              config.heads,
                              config.kv_heads,
                              config.head_size,
                              choice_.step.sequence,
                              {}};
    if (choice_.selection.activations() == DType::kBF16)
      call.type = bench::parse_trial_type("bf16");
    const LevelOptions& level = o_.training.level;
    const std::string more = attention_switch(level.attention, call, o_.training.machine);
    if (more.empty()) return;
    choice_.switches += (choice_.switches.empty() ? "" : ",") + more;
    choice_.selection = passes::Selection(level.level, choice_.switches);
  }

  void save(train::Trainer& trainer) const {
    if (o_.save) train::save_model(trainer, *o_.save, tokenizer());
  }

  const TrainOptions& o_;
  const TerminalOptions& terminal_;
  TrainingChoice choice_;
  report::OutputFormat format_;
  TrainingSchedule schedule_;
  measure::TrainingExperiment experiment_;
  record::LabRecord record_;
  std::optional<TrainingLog> log_;
  std::optional<StartingModel> start_;  // with --model
  std::optional<TrainingData> data_;
  std::optional<TrainingSamples> samples_;
  std::optional<TrainingPauses> pauses_;  // with data
  int64_t skipped_ = 0;                   // updates
  double attended_ = 0;                   // the sum over steps, with packed documents
  Progress* progress_ = nullptr;          // while training
};

void add_options(Command app, TrainOptions& o) {
  add_training_options(app, o.training);
  add_attention_option(app, o.training.level.attention);
  add_model_file_option(app, o.training.model);
  add_tuning_options(app, o.training);
  add_training_data_options(app, o.data);
  add_pause_options(app, o.pauses);
  add_sample_options(app, o.samples);
  add_micro_batch_option(app, o.training);
  add_length_options(app, o.schedule);
  app.add_option("--warmup", o.warmup, "training steps before step 0, without --data")
      .show_default();
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
                without_checkpoints(o.pauses),
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
  Command app = program.add_subcommand(
      "train", "Train a preset, a configuration or a published model and print one line per step");
  add_options(app, *options);
  app.footer(
      "Ctrl-C ends the training after the current step; the summary, --save, --out and --json are\n"
      "written as usual, then the program ends by SIGINT (exit code 130 in a shell). A second Ctrl-C\n"
      "ends it at once and writes nothing.\n"
      "Examples:\n"
      "  ridge train                             the small model in fp32 at level compiled\n"
      "  ridge train --preset tiny --level baseline --steps 50\n"
      "  ridge train --dtype bf16 --micro-batches 4 --clip 1 --lr-warmup 100 --lr-decay 1000\n"
      "  ridge train --preset tiny --device cpu --dtype fp16 --loss-scale 4096 --clip 1\n"
      "  ridge train --preset tiny --steps 100 --numerics 50\n"
      "  ridge train --preset tiny --pass +recompute,-fuse_glu --profile\n"
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
    if (const int signal = Training(*options, app, context).run()) end_by_interrupt(signal);
  });
}

}  // namespace ridge::apps
