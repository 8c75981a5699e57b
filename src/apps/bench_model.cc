// SPDX-License-Identifier: Apache-2.0
// ridge bench model: tokens per second of prefill and decode, counted as llama-bench does.
// Not a subcommand.
#include <fmt/format.h>

#include <memory>
#include <optional>

#include "apps/bench_run.h"
#include "apps/inference_options.h"
#include "bench/model_bench.h"
#include "report/bench_table.h"
#include "report/model_bench.h"

namespace ridge::apps {
namespace {

struct BenchModelOptions {
  InferenceOptions inference;
  bench::ModelBenchSetup setup;
  bool verbose = false;
  std::string format = "table";
  OutputOptions output;
};

void print(const BenchModelOptions& o,
           const record::ModelBenchRecord& made,
           const TerminalOptions& terminal) {
  if (o.format == "json")
    fmt::print("{}", report::json_text(report::model_bench_json(made)));
  else if (o.format == "csv")
    fmt::print("{}", report::model_bench_csv(made));
  else
    fmt::print("{}", report::model_bench_text(made, terminal, o.format == "md"));
}

void measure(BenchModelOptions& o, const AppContext& context) {
  std::optional<OutputFolder> folder;
  if (o.inference.ranks.is_first()) folder = requested_folder(o.output);
  o.setup.inference = o.inference;
  record::ModelBenchRecord made = bench::bench_model(
      o.setup, [&] { return machine_ceilings(o.inference.machine, {}, context.terminal); },
      [&](const std::string& note) {
        fmt::print(stderr, "{}", wrap_lines(note, context.terminal.columns));
      });
  made.program = kProgram;
  if (folder) folder->commit(report::bench_files(about(context), made));
  print(o, made, context.terminal);
  for (const record::KernelTimes& times : made.kernels)
    fmt::print("{}",
               report::kernel_times_text(times, context.terminal, o.format == "md", o.verbose));
}

void run(BenchModelOptions o, const AppContext& context) {
  check_text_format(o.format);
  run_on_ranks(o.inference, [&] { measure(o, context); });
}

}  // namespace

void add_bench_model(Command bench, const AppContext& context) {
  auto o = std::make_shared<BenchModelOptions>();
  Command app =
      bench.add_subcommand("model", "Time prefill and decode of a model file, as llama-bench does");
  app.add_option("-p,--prompt-tokens", o->setup.prompts,
                 "tokens of a prompt, lengths to time (0: no prefill)")
      .numbers();
  app.add_option("-n,--tokens", o->setup.generated,
                 "tokens to generate, numbers to time (0: no decode)")
      .numbers();
  app.add_option("-d,--depth", o->setup.trials.depth,
                 "tokens in the KV cache before the first generated one");
  app.add_option("-b,--batch-size", o->setup.trials.batch, "number of sequences at a time");
  app.add_option("-r,--repeats", o->setup.trials.repeats,
                 "measured runs per test, after two warm-up runs");
  add_random_weights_option(app, o->inference);
  app.add_flag("--operations", o->setup.operations,
               "also print kernel times by op, of a prefill per prompt length and a decode step");
  app.add_verbose_flag(o->verbose);
  add_text_format_option(app, o->format);
  add_output_options(app, o->output, "folder for bench.json and report.html");
  app.add_option("-t", o->inference.machine.threads, "short for --threads, with the same default");
  add_inference_options(app, o->inference);
  add_model_rank_options(app, o->inference.ranks);
  app.footer(
      "Examples:\n"
      "  ridge bench model gemma-3-270m-q4_k_m.gguf -p 512 -n 128\n"
      "  ridge bench model model/ -p 128,512 -n 0 --device cpu -t 1 --format json\n"
      "  ridge bench model llama-2-7b --random-weights --device cuda -p 2048 -n 64");
  app.callback([o, app, &context] {
    app.refuse_unused(
        {without_folder(o->output),
         {o->inference.json, "with --json", {"--format", "--operations"}},
         {o->format == "csv" || o->format == "json",
          "with --format " + o->format,
          {"--operations"}},
         {!o->setup.operations, "without --operations", {"--verbose"}},
         {app.given("-t"), "with -t", {"--threads"}},
         {o->setup.generated == "0", "without generated tokens (-n 0)", {"--depth"}}});
    if (o->inference.json) o->format = "json";
    run(*o, context);
  });
}

}  // namespace ridge::apps
