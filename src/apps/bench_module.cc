// SPDX-License-Identifier: Apache-2.0
// ridge bench module: one module of any configuration, in the forms in which it can run.
// Not a subcommand.
#include <fmt/format.h>

#include <memory>

#include "apps/bench_run.h"
#include "bench/module_bench.h"
#include "models/known_shapes.h"

namespace ridge::apps {
namespace {

struct BenchModuleOptions {
  bench::ModuleBenchOptions bench;
  BenchRunOptions run;
};

void run(const BenchModuleOptions& o, const Command& app, const AppContext& context) {
  check(o.run, app);
  const bool on_gpu = o.run.hardware != "this" || is_gpu(o.run.machine);
  bench::ModuleBenchOptions options = o.bench;
  options.is_gpu_sheet = o.run.is_gpu_sheet();
  const bench::ModuleBench bench(options, on_gpu);
  app.refuse_unused({{!bench.decodes(), "without --phase decode", {"--context"}}});
  BenchRun run(o.run, context, bench.is_tf32());
  show(run, o.bench.module, bench.size(), "points",
       [&](const bench::PointListener& listener) { return bench.run(run.trials(), listener); });
}

std::string forms_help() {
  std::string text = "Forms:\n";
  for (const bench::ModuleForm& each : bench::module_forms())
    text += fmt::format("  {:<10} {}{}\n", each.name, each.summary, each.gpu_only ? " (GPUs)" : "");
  return text;
}

}  // namespace

void add_bench_module(Command bench, const AppContext& context) {
  auto o = std::make_shared<BenchModuleOptions>();
  Command app =
      bench.add_subcommand("module", "Time one module of a configuration, in several forms");
  app.add_option("MODULE", o->bench.module, "the module: " + std::string(models::kModuleNames))
      .required();
  app.add_option("--config", o->bench.config,
                 "the model's shape: " + models::known_shape_names() + ", or a config.json");
  app.add_option("--phase", o->bench.phases,
                 "what to time, one or a list: train (forward and backward), prefill, decode, and "
                 "uncached-decode (keys and values of all tokens before again)");
  app.add_option("--batch-size", o->bench.batch_sizes, "numbers of sequences at a time").numbers();
  app.add_option("--seq-len", o->bench.lengths, "tokens of a sequence, lengths to compare")
      .numbers();
  app.add_option("--context", o->bench.contexts,
                 "decode: keys of a sequence in the KV cache (default: --seq-len)")
      .numbers();
  app.add_option("--layer", o->bench.layer,
                 "number of the layer; layers with a sliding window differ from others");
  app.add_option(
      "--dtype", o->bench.dtype,
      "type of the GEMMs: bf16, fp32, tf32, fp16, or a type of weights: f16, q8_0, q4_k ...");
  app.add_option("--form", o->bench.forms, "all, or a list of the forms below");
  app.add_option("--bytes", o->bench.bytes, bench::bytes_help());
  add_bench_run_options(app, o->run);
  add_profile_option(app, o->run);
  app.footer(
      forms_help() +
      "\nWeights are random. --hardware and --plan count and predict without a run.\n"
      "Examples:\n"
      "  ridge bench module mlp --config gemma3-270m --phase prefill --batch-size 8 --seq-len 2048 --counts\n"
      "  ridge bench module mlp --config tiny --phase prefill,decode --batch-size 1,8 --seq-len 32\n"
      "  ridge bench module attention --config llama-2-70b --hardware h100 --phase decode --context 4096");
  app.callback([o, app, &context] { run(*o, app, context); });
}

}  // namespace ridge::apps
