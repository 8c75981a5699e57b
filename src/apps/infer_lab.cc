// SPDX-License-Identifier: Apache-2.0
// ridge infer-lab: measures the parts of prefill and decode on this machine and shows the bounds of
// each.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "apps/inference_options.h"
#include "apps/interrupt.h"
#include "apps/machine_ceilings.h"
#include "apps/output_folder.h"
#include "apps/subcommand.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/units.h"
#include "bench/attention_trial.h"
#include "measure/inference_run.h"
#include "record/contradictions.h"
#include "report/brief_report.h"
#include "report/console_report.h"
#include "report/inference_report.h"

namespace ridge::apps {
namespace {

constexpr int64_t kMostLength = int64_t{1} << 20;

struct InferLabOptions {
  InferenceOptions inference;
  std::string levels = "all";
  std::string batch_sizes = "1,8";
  std::string lengths;
  std::string latency_batches = "1,8,16,32";
  std::string attention_lengths = "256,512,1024,2048,4096,8192,16384,32768";
  int64_t prompt = 64;
  int64_t tokens = 32;
  double seconds = 120;
  OutputOptions output;
  report::OutputFormat format;
  bool verbose = false;
};

class InferLab {
 public:
  InferLab(const InferLabOptions& options, const AppContext& context)
      : o_(options),
        terminal_(context.terminal),
        begin_ns_(now_ns()),
        file_(models::ModelFile::open(options.inference.model)) {
    study_.open_ns = now_ns() - begin_ns_;
    study_.file = file_.is_gguf() ? "GGUF" : "safetensors";
    study_.file_bytes = file_.tensors().bytes();
    study_.lab.program = kProgram;
    study_.lab.command = context.command;
    check();
  }

  // Returns false after a Ctrl-C.
  bool run() {
    OutputFolder folder(o_.output, "infer-lab-out");
    study_.lab.ceilings = machine_ceilings(o_.inference.machine, false, terminal_);
    interrupt_.emplace("\nridge: the lab ends after this step; Ctrl-C again ends it at once\n");
    begin_ns_ = now_ns();  // the study's time starts after the ceilings
    measure_phases();
    if (study_.lab.runs.empty()) {
      fmt::print(stderr, "Too little was measured for a summary.\n");
      return false;
    }
    measure_gains();
    measure_latencies();
    measure_attention();
    if (is_stopped()) study_.lab.warnings.push_back("Ctrl-C ended this lab early");
    for (const record::RunRecord& run : study_.lab.runs) record::add_doubts(run, study_.lab);
    record::add_contradictions(study_);
    study_.lab.finished_at = utc_now();
    print();
    folder.commit(report::study_files(study_, o_.format));
    fmt::print("{}", o_.inference.json ? report::inference_summary(study_)
                                       : written_text(folder, terminal_, o_.verbose));
    return !is_stopped();
  }

 private:
  bool is_stopped() const { return interrupt_->is_set(); }

  // The share of the study's time at which each part must end.
  static constexpr double kPhasesEnd = 0.45, kGainsEnd = 0.55, kLatenciesEnd = 0.8,
                          kAttentionEnd = 1;

  // Finds every error in the options before anything runs.
  void check() {
    levels_ = parse_levels(o_.levels, "level");
    batches_ = parse_sizes(o_.batch_sizes, "batch-size");
    lengths_ = o_.lengths.empty() ? usual_lengths() : parse_sizes(o_.lengths, "seq-len");
    latency_batches_ = parse_sizes(o_.latency_batches, "latency-batch-size");
    attention_lengths_ = parse_sizes(o_.attention_lengths, "attention-seq-len");
    if (!(o_.seconds >= 1 && o_.seconds <= 1e6))
      throw usage_error("[seconds] expected 1 to 1000000, got {:g}", o_.seconds);
    if (o_.prompt < 1 || o_.tokens < 2)
      throw usage_error(
          "[tokens] expected --prompt-tokens of at least 1 and --tokens of at least 2, got {} and {}",
          o_.prompt, o_.tokens);
    for (int64_t length : lengths_) expect_context("seq-len", length);
    if (__builtin_add_overflow(o_.prompt, o_.tokens - 1, &latency_length_))
      latency_length_ = kMostLength + 1;
    expect_context("prompt-tokens and tokens", latency_length_);
    for (int64_t length : attention_lengths_)
      if (length > kMostLength)
        throw usage_error("[attention-seq-len] expected at most {}, got {}", kMostLength, length);
    for (const std::string& level : levels_) selection(level);
    backend_ = make_backend(o_.inference.machine, selection(levels_.back()));
    expect_effect(o_.inference.level.switches, passes::Serves::kInference, *backend_);
    for (int64_t batch : batches_)
      expect_cache("batch-size", batch, *std::max_element(lengths_.begin(), lengths_.end()));
    for (int64_t batch : latency_batches_)
      expect_cache("latency-batch-size", batch, latency_length_);
  }

  std::vector<int64_t> usual_lengths() const {
    int64_t context = file_.config().context;
    return context <= 128 ? std::vector<int64_t>{context}
                          : std::vector<int64_t>{128, std::min<int64_t>(512, context)};
  }

  void expect_context(const char* option, int64_t length) const {
    if (length > file_.config().context)
      throw usage_error("[{}] expected at most {} positions, the model's context, got {}", option,
                        file_.config().context, length);
  }

  void expect_cache(const char* option, int64_t batch, int64_t length) const {
    if (batch > serve::kMostSlots)
      throw usage_error("[{}] expected at most {} sequences, got {}", option, serve::kMostSlots,
                        batch);
    serve::SessionOptions session;
    session.slots = batch;
    session.capacity = length;
    session.chunk = o_.inference.chunk;
    session.selection = selection(levels_.back());
    session.cache_dtype = chosen_cache_dtype(o_.inference, session.selection);
    expect_cache_fits(file_.config(), session, *backend_);
  }

  passes::Selection selection(const std::string& level) const {
    return inference_selection(o_.inference, level);
  }

  measure::InferenceExperiment experiment(const std::string& level,
                                          int64_t batch,
                                          int64_t length) const {
    measure::InferenceExperiment e;
    e.selection = selection(level);
    e.setting = make_setting(std::filesystem::path(o_.inference.model).stem().string(),
                             o_.inference.machine, e.selection, o_.inference.level.switches);
    e.batch = batch;
    e.length = length;
    e.chunk = o_.inference.chunk;
    e.cache_dtype = chosen_cache_dtype(o_.inference, e.selection);
    e.repeats = {4, 40, 1e7 * o_.seconds};  // a hundred measurements share the time
    e.is_stopped = [this] { return is_stopped(); };
    return e;
  }

  // Whether no Ctrl-C came, before or within a part of the study; if one did, the part is left out.
  bool continues(const std::string& what) {
    if (is_stopped()) study_.left_out.push_back(what + ": Ctrl-C ended the lab");
    return !is_stopped();
  }

  // Whether work on this many tokens, at the rate of the last prefill, would end before `share` of
  // the time has passed.
  bool allows(double share, double tokens, const std::string& what) {
    if (!continues(what)) return false;
    double needed_ns = tokens * ns_per_token_,
           left_ns = share * o_.seconds * 1e9 - (now_ns() - begin_ns_);
    if (needed_ns <= left_ns) return true;
    study_.left_out.push_back(
        fmt::format("{}: needs about {:.0f} s, but {:.0f} s are left (--seconds)", what,
                    needed_ns / 1e9, std::max(left_ns, 0.0) / 1e9));
    return false;
  }

  void announce(const std::string& what) const {
    if (!o_.inference.json || terminal_.progress)
      fmt::print(stderr, "{:>6.1f} s  {}\n", (now_ns() - begin_ns_) / 1e9,
                 terminal_safe(what, kLongestMessage));
  }

  // Every level at the first batch and length, the last level at all others.
  void measure_phases() {
    for (int64_t length : lengths_)
      for (int64_t batch : batches_) {
        bool is_first = batch == batches_[0] && length == lengths_[0];
        for (const std::string& level : levels_) {
          if (!is_first && level != levels_.back()) continue;
          std::string what =
              fmt::format("prefill and decode, {}, batch {}, length {}", level, batch, length);
          if (is_first ? !continues(what)
                       : !allows(kPhasesEnd, 6.0 * static_cast<double>(batch * length), what))
            continue;
          announce(what);
          // The operations of the last level are reported; of the last that ran, after a Ctrl-C.
          if (add_phases(level, batch, length, what) && is_first)
            study_.lab.detailed = {study_.lab.runs.size() - 2, study_.lab.runs.size() - 1};
        }
      }
    // Order the runs: prefills first, then decodes, each in the order in which they ran.
    std::vector<size_t> order;
    for (const char* task : {"prefill", "decode"})
      for (size_t i = 0; i < study_.lab.runs.size(); ++i)
        if (study_.lab.runs[i].setting.task == task) order.push_back(i);
    std::vector<record::RunRecord> sorted;
    for (size_t i : order) sorted.push_back(std::move(study_.lab.runs[i]));
    for (size_t& index : study_.lab.detailed)
      index = static_cast<size_t>(std::find(order.begin(), order.end(), index) - order.begin());
    study_.lab.runs = std::move(sorted);
  }

  // Returns false if a Ctrl-C came.
  bool add_phases(const std::string& level,
                  int64_t batch,
                  int64_t length,
                  const std::string& what) {
    // The backend depends on the level too: capture, for example.
    std::unique_ptr<backends::Backend> of_level;
    if (level != levels_.back()) of_level = make_backend(o_.inference.machine, selection(level));
    std::optional<measure::PhaseRecords> phases =
        measure::measure_phases(file_, experiment(level, batch, length),
                                of_level ? *of_level : *backend_, study_.lab.limits());
    if (!phases) return continues(what);
    ns_per_token_ = phases->prefill.wall().median / static_cast<double>(batch * length);
    decode_ns_ = phases->decode.wall().median / static_cast<double>(batch);
    study_.lab.runs.push_back(std::move(phases->prefill));
    study_.lab.runs.push_back(std::move(phases->decode));
    return true;
  }

  void measure_gains() {
    for (int64_t length : lengths_) {
      std::string what = fmt::format("with and without the KV cache, length {}", length);
      if (!allows(kGainsEnd, 8.0 * static_cast<double>(length), what)) continue;
      announce(what);
      if (auto gain =
              measure::measure_cache_gain(file_, experiment(levels_.back(), 1, length), *backend_))
        study_.gains.push_back(std::move(*gain));
      else
        continues(what);
    }
  }

  void measure_latencies() {
    for (int64_t batch : latency_batches_) {
      std::string what =
          fmt::format("latency, batch {}: {} tokens after {}", batch, o_.tokens, o_.prompt);
      double prompts = 2.0 * static_cast<double>(batch * o_.prompt);
      double generated =
          2.0 * static_cast<double>(batch * o_.tokens) * decode_ns_ / std::max(ns_per_token_, 1.0);
      if (!allows(kLatenciesEnd, prompts + generated, what)) continue;
      announce(what);
      if (auto latency = measure::measure_latency(
              file_, experiment(levels_.back(), batch, o_.prompt), o_.tokens, *backend_))
        study_.latencies.push_back(std::move(*latency));
      else
        continues(what);
    }
  }

  void measure_attention() {
    const int64_t memory = study_.lab.ceilings->machine.memory_bytes;
    for (int64_t head_size : {int64_t{64}, int64_t{128}}) {
      for (int64_t length : attention_lengths_) {
        std::string what = fmt::format("attention, head size {}, length {}", head_size, length);
        if (!continues(what)) continue;
        announce(what);
        double left_ns = kAttentionEnd * o_.seconds * 1e9 - (now_ns() - begin_ns_);
        // The other half of the free memory is for other programs.
        bench::AttentionLimits limits{backend_->available_bytes() / 2, std::max(left_ns / 4, 1e6),
                                      2e6 * o_.seconds};
        study_.attention.push_back(
            bench::try_attention({1, head_size, length}, limits, *backend_, study_.lab.limits()));
      }
      if (memory > 0 && !is_stopped())
        study_.reaches.push_back(bench::standard_reach({1, head_size, 1}, memory, *backend_));
    }
  }

  void print() const {
    if (o_.inference.json) return;
    const record::RunRecord& last = study_.lab.runs[study_.lab.detailed.back()];
    if (!o_.verbose)
      return fmt::print("{}{}{}", report::brief_heading(study_.lab, terminal_),
                        report::brief_study(study_, terminal_),
                        report::brief_operations(study_.lab, last, terminal_));
    fmt::print("{}", report::heading_text(study_.lab, terminal_));
    fmt::print("file      {}, {} of tensors\n", study_.file, format_bytes(study_.file_bytes));
    for (const report::StudySection& section : report::study_sections(study_))
      fmt::print("{}", report::section_text(section, terminal_));
    fmt::print("{}", report::operations_text(study_.lab, last, terminal_));
    for (const std::string& each : study_.left_out)
      fmt::print("{}",
                 wrap_lines("skipped: " + terminal_safe(each, kLongestMessage), terminal_.columns));
  }

  const InferLabOptions& o_;
  const TerminalOptions& terminal_;
  double begin_ns_;
  models::ModelFile file_;
  record::InferenceRecord study_;
  std::unique_ptr<backends::Backend> backend_;  // of the last level
  std::optional<InterruptRequest> interrupt_;   // from when the first part runs
  std::vector<std::string> levels_;
  std::vector<int64_t> batches_, lengths_, latency_batches_, attention_lengths_;
  int64_t latency_length_ = 0;
  double ns_per_token_ = 0, decode_ns_ = 0;  // of the last measured prefill and decode
};

void add_infer_lab_options(Command app, InferLabOptions& o) {
  InferenceOptions& i = o.inference;
  add_model_run_options(app, i);
  app.add_option("--level", o.levels, "levels: all, or a list such as baseline,compiled")
      .show_default();
  app.add_option("--batch-size", o.batch_sizes, "sequences at a time").numbers().show_default();
  app.add_option("--seq-len", o.lengths,
                 "lengths of the prompt (prefill) and of the context (decode); "
                 "default: 128,512, or less if the model's context is shorter")
      .numbers();
  app.add_option("--latency-batch-size", o.latency_batches, "batch sizes of the latency check")
      .numbers()
      .show_default();
  app.add_option("--prompt-tokens", o.prompt, "prompt length of the latency check").show_default();
  app.add_option("--tokens", o.tokens, "tokens generated in the latency check").show_default();
  app.add_option("--attention-seq-len", o.attention_lengths,
                 "lengths for comparing standard and flash attention")
      .numbers()
      .show_default();
  app.add_option("--seconds", o.seconds,
                 "time budget in seconds; the report lists the parts that it skips")
      .show_default();
  add_output_options(
      app, o.output,
      "folder for the files (default: infer-lab-out; if it exists, infer-lab-out-2 ...)");
  add_gzip_option(app, o.format);
  app.add_verbose_flag(o.verbose);
}

}  // namespace

void register_infer_lab(Command program, const AppContext& context) {
  auto options = std::make_shared<InferLabOptions>();
  Command app = program.add_subcommand("infer-lab",
                                       "Measure prefill, decode and the KV cache of a model file");
  add_infer_lab_options(app, *options);
  app.footer(
      "Ctrl-C ends the lab after the current prefill or token; the parts that are complete are reported\n"
      "and written, then the program ends by SIGINT (exit code 130 in a shell). A second Ctrl-C ends\n"
      "it at once and writes nothing.\n"
      "Examples:\n"
      "  ridge infer-lab SmolLM2-135M-Instruct.Q4_1.gguf\n"
      "  ridge infer-lab model/ --level baseline,compiled --seq-len 64,256 --seconds 30\n"
      "  ridge infer-lab gemma-3-270m-q4_k_m.gguf --batch-size 1 --out gemma-study");
  app.callback([options, app, &context] {
    app.refuse_unused(
        {without_folder(options->output), {options->inference.json, "with --json", {"--verbose"}}});
    if (!InferLab(*options, context).run()) end_by_interrupt();
  });
}

}  // namespace ridge::apps
