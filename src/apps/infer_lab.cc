// SPDX-License-Identifier: Apache-2.0
// ridge infer-lab: measures the parts of prefill and decode on this machine and shows the bounds of
// each.
#include <fmt/format.h>

#include <memory>
#include <optional>

#include "apps/inference_options.h"
#include "apps/output_options.h"
#include "apps/subcommand.h"
#include "apps/this_machine.h"
#include "base/clock.h"
#include "bench/inference_lab.h"
#include "report/inference_report.h"

namespace ridge::apps {
namespace {

struct InferLabOptions {
  InferenceOptions inference;
  bench::InferenceLabOptions lab;
  OutputOptions output;
  report::OutputFormat format;
  bool verbose = false;
};

// Returns false after a Ctrl-C.
bool measure(const InferLabOptions& o, const AppContext& context) {
  const TerminalOptions& terminal = context.terminal;
  const RankOptions& ranks = o.inference.ranks;
  record::InferenceRecord study;
  bench::InferenceLab lab(o.inference, o.lab, study);
  study.lab.program = kProgram;
  study.lab.command = context.command;
  std::optional<OutputFolder> folder;
  if (ranks.is_first()) folder.emplace(o.output, "infer-lab-out");
  study.lab.ceilings = machine_ceilings(o.inference.machine, {}, terminal);
  const InterruptRequest interrupt(
      "\nridge: the lab ends after this step; Ctrl-C again ends it at once\n");
  lab.run({.is_stopped = [&] { return ranks.any(interrupt.is_set()); },
           .announce =
               [&](const std::string& part, double ns) {
                 if (ranks.is_first() && (!o.inference.json || terminal.progress))
                   fmt::print(stderr, "{:>6.1f} s  {}\n", ns / 1e9,
                              terminal_safe(part, kLongestMessage));
               },
           .any = [&](bool here) { return ranks.any(here); }});
  if (study.lab.runs.empty()) {
    if (ranks.is_first()) fmt::print(stderr, "Too little was measured for a summary.\n");
    return false;
  }
  study.lab.finished_at = utc_now();
  if (!o.inference.json) fmt::print("{}", report::study_text(study, o.verbose, terminal));
  if (folder) {
    folder->commit(report::study_files(study, o.format));
    fmt::print("{}", o.inference.json ? report::inference_summary(study)
                                      : written_text(*folder, terminal, o.verbose));
  }
  return !ranks.any(interrupt.is_set());
}

void add_infer_lab_options(Command app, InferLabOptions& o) {
  InferenceOptions& i = o.inference;
  add_model_run_options(app, i);
  add_random_weights_option(app, i);
  add_tensor_options(app, i.ranks);
  app.add_option("--level", o.lab.levels,
                 "levels to compare: all, or a list of baseline, fused, kernels and compiled");
  app.add_option("--batch-size", o.lab.batch_sizes, "numbers of sequences that run at a time")
      .numbers();
  app.add_option("--seq-len", o.lab.lengths,
                 "tokens of the prompt (prefill) and of the context (decode); "
                 "default: 128,512, or less if the model's context is shorter")
      .numbers();
  app.add_option(
         "--latency-batch-size", o.lab.latency_batches,
         "numbers of sequences in the latency check, TTFT and TPOT against whole generations")
      .numbers();
  app.add_option("--prompt-tokens", o.lab.prompt, "tokens of a prompt in the latency check");
  app.add_option("--tokens", o.lab.tokens, "tokens generated in the latency check");
  app.add_option("--attention-seq-len", o.lab.attention_lengths,
                 "tokens of a sequence in the comparison of standard and flash attention")
      .numbers();
  app.add_option("--seconds", o.lab.seconds,
                 "seconds for all measurements; the report lists the parts that did not fit");
  add_output_options(
      app, o.output,
      "folder for the files (default: infer-lab-out; if it exists, infer-lab-out-2 ...)");
  add_gzip_option(app, o.format.gzip);
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
      "  ridge infer-lab gemma-3-270m-q4_k_m.gguf --batch-size 1 --out gemma-study\n"
      "  ridge infer-lab llama-2-7b --random-weights --tensor-parallel 2");
  app.callback([options, app, &context] {
    app.refuse_unused(
        {without_folder(options->output), {options->inference.json, "with --json", {"--verbose"}}});
    bool is_complete = true;
    run_on_ranks(options->inference, [&] { is_complete = measure(*options, context); });
    if (!is_complete) end_by_interrupt();
  });
}

}  // namespace ridge::apps
