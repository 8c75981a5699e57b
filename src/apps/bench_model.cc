// SPDX-License-Identifier: Apache-2.0
// ridge bench model: tokens per second of prefill and decode, counted as llama-bench does.
// Not a subcommand.
#include "apps/bench_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>

#include "apps/bench_run.h"
#include "apps/inference_options.h"
#include "apps/machine_ceilings.h"
#include "apps/output_folder.h"
#include "apps/tuning_files.h"
#include "base/clock.h"
#include "base/error.h"
#include "bench/model_bench.h"
#include "report/bench_files.h"
#include "report/model_bench.h"

namespace ridge::apps {
namespace {

constexpr int64_t kMostRepeats = 10'000;

struct BenchModelOptions {
  InferenceOptions inference;
  std::string prompts = "512";
  std::string generated = "128";
  bench::ModelBenchOptions trials;
  bool random_weights = false;
  bool operations = false;
  bool verbose = false;
  std::string format = "table";
  OutputOptions output;
};

std::vector<int64_t> sizes(const std::string& text, const char* option) {
  return text == "0" ? std::vector<int64_t>() : parse_sizes(text, option);
}

// The positions that the longest of the trials needs.
int64_t most_positions(const std::vector<int64_t>& prompts,
                       const std::vector<int64_t>& generated,
                       int64_t depth) {
  int64_t most = 1;
  for (int64_t each : prompts) most = std::max(most, each);
  for (int64_t each : generated) {
    if (__builtin_add_overflow(each, depth, &each)) each = std::numeric_limits<int64_t>::max();
    most = std::max(most, each);
  }
  return most;
}

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

void run(BenchModelOptions o, const AppContext& context) {
  const std::vector<int64_t> prompts = sizes(o.prompts, "prompt-tokens");
  const std::vector<int64_t> generated = sizes(o.generated, "tokens");
  const auto& [depth, batch, repeats, reads_memory] = o.trials;
  if (prompts.empty() && generated.empty())
    throw usage_error("[bench] expected -p or -n above 0, got 0 for both");
  if (repeats < 1 || repeats > kMostRepeats)
    throw usage_error("[repeats] expected 1 to {}, got {}", kMostRepeats, repeats);
  if (batch < 1 || batch > serve::kMostSlots)
    throw usage_error("[batch-size] expected 1 to {}, got {}", serve::kMostSlots, batch);
  if (depth < 0) throw usage_error("[depth] expected at least 0, got {}", depth);
  check_text_format(o.format);
  std::optional<OutputFolder> folder = requested_folder(o.output);
  record::ModelBenchRecord made;
  double begin = now_ns();
  models::ModelFile file = o.random_weights ? models::ModelFile::open_shape(o.inference.model)
                                            : models::ModelFile::open(o.inference.model);
  made.read_ns = now_ns() - begin;
  const int64_t most = most_positions(prompts, generated, depth);
  if (most > file.config().context)
    throw usage_error("[bench] expected at most {} positions, the model's context, got {}",
                      file.config().context, most);
  const SessionNeeds needs{.positions = most, .slots = batch};
  const InferenceOptions inference = with_attention(o.inference, file.config(), needs);
  begin = now_ns();
  const std::unique_ptr<OpenModel> model = open_model(std::move(file), inference, needs);
  made.open_ns = now_ns() - begin;
  made.ceilings = machine_ceilings(o.inference.machine, {}, context.terminal);
  o.trials.reads_memory = chosen_device(o.inference.machine) == "cpu";
  bench::ModelBench bench(model->file, *model->session, made.ceilings, o.trials);
  made.first_token_ns = bench.prefill(1);
  for (int64_t each : prompts) made.trials.push_back(bench.time_prefill(each));
  for (int64_t each : generated) made.trials.push_back(bench.time_decode(each));
  for (const record::BeatenCeiling& each : bench.beaten())
    fmt::print(
        stderr, "{}",
        wrap_lines(fmt::format("warning: {}, so that is raised for the next run", each.str()),
                   context.terminal.columns));
  if (!bench.beaten().empty())
    keep_ceilings(raised(made.ceilings, bench.beaten()), context.terminal);
  made.program = kProgram;
  made.setting = make_setting(model->file.path().stem().string(), o.inference.machine,
                              model->session->options().selection, o.inference.level.switches);
  made.setting.batch_size = batch;
  made.setting.cache_dtype = serve::cache_dtype_name(*model->session->options().cache_dtype);
  made.format = o.random_weights        ? "random weights"
                : model->file.is_gguf() ? "GGUF"
                                        : "safetensors";
  made.size_bytes = model->file.weight_bytes();
  made.parameters = model->file.config().parameters();
  made.activations = o.inference.exact ? "exact" : o.inference.fast_8bit ? "8 bits" : "fast";
  made.owned_bytes = model->session->owned_bytes();
  if (folder) {
    record::LabRecord about;
    about.program = kProgram;
    about.command = context.command;
    about.finished_at = utc_now();
    folder->commit(report::bench_files(about, made));
  }
  print(o, made, context.terminal);
  if (!o.operations) return;
  const auto print_kernels = [&](const record::KernelTimes& times) {
    fmt::print("{}",
               report::kernel_times_text(times, context.terminal, o.format == "md", o.verbose));
  };
  for (int64_t each : prompts) print_kernels(bench.prefill_kernels(each));
  if (!generated.empty()) print_kernels(bench.decode_kernels());
}

}  // namespace

void add_bench_model(Command bench, const AppContext& context) {
  auto o = std::make_shared<BenchModelOptions>();
  Command app =
      bench.add_subcommand("model", "Time prefill and decode of a model file, as llama-bench does");
  app.add_option("-p,--prompt-tokens", o->prompts,
                 "tokens of a prompt, lengths to time (0: no prefill)")
      .numbers()
      .show_default();
  app.add_option("-n,--tokens", o->generated, "tokens to generate, numbers to time (0: no decode)")
      .numbers()
      .show_default();
  app.add_option("-d,--depth", o->trials.depth,
                 "tokens in the KV cache before the first generated one")
      .show_default();
  app.add_option("-b,--batch-size", o->trials.batch, "number of sequences at a time")
      .show_default();
  app.add_option("-r,--repeats", o->trials.repeats,
                 "measured runs per test, after two warm-up runs")
      .show_default();
  app.add_flag("--random-weights", o->random_weights,
               "use random bf16 weights; MODEL is then a config.json or its folder");
  app.add_flag("--operations", o->operations,
               "also print kernel times by op, of a prefill per prompt length and a decode step");
  app.add_verbose_flag(o->verbose);
  add_text_format_option(app, o->format);
  add_output_options(app, o->output, "folder for bench.json and report.html");
  app.add_option("-t", o->inference.machine.threads, "same as --threads");
  add_inference_options(app, o->inference);
  app.footer(
      "Examples:\n"
      "  ridge bench model gemma-3-270m-q4_k_m.gguf -p 512 -n 128\n"
      "  ridge bench model model/ -p 128,512 -n 0 --device cpu -t 1 --format json\n"
      "  ridge bench model llama-2-7b/config.json --random-weights --device cuda -p 2048 -n 64");
  app.callback([o, app, &context] {
    app.refuse_unused({without_folder(o->output),
                       {o->inference.json, "with --json", {"--format", "--operations"}},
                       {o->format == "csv" || o->format == "json",
                        "with --format " + o->format,
                        {"--operations"}},
                       {!o->operations, "without --operations", {"--verbose"}},
                       {app.given("-t"), "with -t", {"--threads"}},
                       {o->generated == "0", "without generated tokens (-n 0)", {"--depth"}}});
    if (o->inference.json) o->format = "json";
    run(*o, context);
  });
}

}  // namespace ridge::apps
