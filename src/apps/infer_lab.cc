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
#include "bench/ceiling_check.h"
#include "bench/extents.h"
#include "bench/inference_lab.h"
#include "measure/inference_run.h"
#include "record/consistency_checks.h"
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

// The options, checked.
struct InferLabPlan {
  models::ModelFile file;
  double open_ns = 0;
  std::unique_ptr<backends::Backend> backend;  // the last level's
  bench::InferenceLabOptions lab;
};

passes::Selection selection(const InferLabOptions& o, const std::string& level) {
  return inference_selection(o.inference, level);
}

void expect_context(const models::ModelFile& file, const char* option, int64_t length) {
  if (length > file.config().context)
    throw usage_error("[{}] expected at most {} positions, the model's context, got {}", option,
                      file.config().context, length);
}

void expect_cache(const InferLabOptions& o,
                  const InferLabPlan& plan,
                  const char* option,
                  int64_t batch,
                  int64_t length) {
  if (batch > serve::kMostSlots)
    throw usage_error("[{}] expected at most {} sequences, got {}", option, serve::kMostSlots,
                      batch);
  serve::SessionOptions session;
  session.slots = batch;
  session.capacity = length;
  session.chunk = o.inference.chunk;
  session.selection = selection(o, plan.lab.levels.back());
  session.cache_dtype = chosen_cache_dtype(o.inference, session.selection);
  serve::expect_cache_fits(plan.file.config(), session, *plan.backend);
}

// Finds every error in the options before anything runs.
InferLabPlan check(const InferLabOptions& o) {
  InferLabPlan plan;
  const double begin = now_ns();
  plan.file = models::ModelFile::open(o.inference.model);
  plan.open_ns = now_ns() - begin;
  bench::InferenceLabOptions& lab = plan.lab;
  lab.levels = parse_levels(o.levels, "level");
  lab.batches = parse_sizes(o.batch_sizes, "batch-size");
  lab.lengths = o.lengths.empty() ? bench::usual_lengths(plan.file.config().context)
                                  : parse_sizes(o.lengths, "seq-len");
  lab.latency_batches = parse_sizes(o.latency_batches, "latency-batch-size");
  lab.attention_lengths = parse_sizes(o.attention_lengths, "attention-seq-len");
  lab.prompt = o.prompt;
  lab.tokens = o.tokens;
  lab.seconds = o.seconds;
  if (!(o.seconds >= 1 && o.seconds <= 1e6))
    throw usage_error("[seconds] expected 1 to 1000000, got {:g}", o.seconds);
  if (o.prompt < 1 || o.tokens < 2)
    throw usage_error(
        "[tokens] expected --prompt-tokens of at least 1 and --tokens of at least 2, got {} and {}",
        o.prompt, o.tokens);
  for (int64_t length : lab.lengths) expect_context(plan.file, "seq-len", length);
  int64_t latency_length = 0;
  if (__builtin_add_overflow(o.prompt, o.tokens - 1, &latency_length))
    latency_length = kMostLength + 1;
  expect_context(plan.file, "prompt-tokens and tokens", latency_length);
  for (int64_t length : lab.attention_lengths)
    if (length > kMostLength)
      throw usage_error("[attention-seq-len] expected at most {}, got {}", kMostLength, length);
  for (const std::string& level : lab.levels) selection(o, level);
  plan.backend = make_backend(o.inference.machine, selection(o, lab.levels.back()));
  expect_effect(o.inference.level.switches, passes::Serves::kInference, *plan.backend);
  const int64_t longest = *std::max_element(lab.lengths.begin(), lab.lengths.end());
  for (int64_t batch : lab.batches) expect_cache(o, plan, "batch-size", batch, longest);
  for (int64_t batch : lab.latency_batches)
    expect_cache(o, plan, "latency-batch-size", batch, latency_length);
  return plan;
}

measure::InferenceExperiment experiment(const InferLabOptions& o,
                                        const std::string& level,
                                        int64_t batch,
                                        int64_t length) {
  measure::InferenceExperiment e;
  e.selection = selection(o, level);
  e.setting = make_setting(std::filesystem::path(o.inference.model).stem().string(),
                           o.inference.machine, e.selection, o.inference.level.switches);
  e.batch = batch;
  e.length = length;
  e.chunk = o.inference.chunk;
  e.cache_dtype = chosen_cache_dtype(o.inference, e.selection);
  e.repeats = {4, 40, 1e7 * o.seconds};  // a hundred measurements share the time
  return e;
}

void print(const InferLabOptions& o,
           const record::InferenceRecord& study,
           const TerminalOptions& terminal) {
  if (o.inference.json) return;
  const record::RunRecord& last = study.lab.runs[study.lab.detailed.back()];
  if (!o.verbose)
    return fmt::print("{}{}{}", report::brief_heading(study.lab, terminal),
                      report::brief_study(study, terminal),
                      report::brief_operations(study.lab, last, terminal));
  fmt::print("{}", report::heading_text(study.lab, terminal));
  fmt::print("file      {}, {} of tensors\n", study.file, format_bytes(study.file_bytes));
  for (const report::StudySection& section : report::study_sections(study))
    fmt::print("{}", report::section_text(section, terminal));
  fmt::print("{}", report::operations_text(study.lab, last, terminal));
  for (const std::string& each : study.left_out)
    fmt::print("{}",
               wrap_lines("skipped: " + terminal_safe(each, kLongestMessage), terminal.columns));
}

// Returns false after a Ctrl-C.
bool run(const InferLabOptions& o, const AppContext& context) {
  const TerminalOptions& terminal = context.terminal;
  InferLabPlan plan = check(o);
  record::InferenceRecord study;
  study.open_ns = plan.open_ns;
  study.file = plan.file.is_gguf() ? "GGUF" : "safetensors";
  study.file_bytes = plan.file.tensors().bytes();
  study.lab.program = kProgram;
  study.lab.command = context.command;
  OutputFolder folder(o.output, "infer-lab-out");
  study.lab.ceilings = machine_ceilings(o.inference.machine, {}, terminal);
  const InterruptRequest interrupt(
      "\nridge: the lab ends after this step; Ctrl-C again ends it at once\n");
  plan.lab.is_stopped = [&] { return interrupt.is_set(); };
  plan.lab.make_backend = [&](const std::string& level) {
    return make_backend(o.inference.machine, selection(o, level));
  };
  plan.lab.experiment = [&](const std::string& level, int64_t batch, int64_t length) {
    measure::InferenceExperiment e = experiment(o, level, batch, length);
    e.is_stopped = [&] { return interrupt.is_set(); };
    return e;
  };
  plan.lab.announce = [&](const std::string& part, double ns) {
    if (!o.inference.json || terminal.progress)
      fmt::print(stderr, "{:>6.1f} s  {}\n", ns / 1e9, terminal_safe(part, kLongestMessage));
  };
  bench::InferenceLab(plan.file, *plan.backend, plan.lab, study).run();
  if (study.lab.runs.empty()) {
    fmt::print(stderr, "Too little was measured for a summary.\n");
    return false;
  }
  if (interrupt.is_set()) study.lab.warnings.push_back("Ctrl-C ended this lab early");
  if (bench::raise_ceilings(study.lab)) keep_ceilings(*study.lab.ceilings, terminal);
  for (const record::RunRecord& each : study.lab.runs) record::check_consistency(each, study.lab);
  record::check_consistency(study);
  study.lab.finished_at = utc_now();
  print(o, study, terminal);
  folder.commit(report::study_files(study, o.format));
  fmt::print("{}", o.inference.json ? report::inference_summary(study)
                                    : written_text(folder, terminal, o.verbose));
  return !interrupt.is_set();
}

void add_infer_lab_options(Command app, InferLabOptions& o) {
  InferenceOptions& i = o.inference;
  add_model_run_options(app, i);
  app.add_option("--level", o.levels,
                 "levels to compare: all, or a list of baseline, fused, kernels and compiled")
      .show_default();
  app.add_option("--batch-size", o.batch_sizes, "numbers of sequences that run at a time")
      .numbers()
      .show_default();
  app.add_option("--seq-len", o.lengths,
                 "tokens of the prompt (prefill) and of the context (decode); "
                 "default: 128,512, or less if the model's context is shorter")
      .numbers();
  app.add_option(
         "--latency-batch-size", o.latency_batches,
         "numbers of sequences in the latency check, TTFT and TPOT against whole generations")
      .numbers()
      .show_default();
  app.add_option("--prompt-tokens", o.prompt, "tokens of a prompt in the latency check")
      .show_default();
  app.add_option("--tokens", o.tokens, "tokens generated in the latency check").show_default();
  app.add_option("--attention-seq-len", o.attention_lengths,
                 "tokens of a sequence in the comparison of standard and flash attention")
      .numbers()
      .show_default();
  app.add_option("--seconds", o.seconds,
                 "seconds for all measurements; the report lists the parts that did not fit")
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
    if (!run(*options, context)) end_by_interrupt();
  });
}

}  // namespace ridge::apps
