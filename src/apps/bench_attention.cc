// SPDX-License-Identifier: Apache-2.0
// ridge bench attention: the forms of attention by length, until the standard form fails to
// allocate. Not a subcommand.
#include <fmt/format.h>

#include <memory>

#include "apps/bench_run.h"
#include "bench/attention_bench.h"
#include "bench/module_trial.h"

namespace ridge::apps {
namespace {

struct BenchAttentionOptions {
  bench::AttentionBenchOptions bench;
  bool no_mask = false;
  BenchRunOptions run;
};

void run(BenchAttentionOptions o, const Command& app, const AppContext& context) {
  check(o.run, app);
  o.bench.machine = o.run.machine;
  o.bench.is_causal = !o.no_mask;
  o.bench.is_gpu_sheet = o.run.is_gpu_sheet();
  bench::AttentionBench bench(o.bench);
  BenchRun run(o.run, context, false);
  show(run, "attention", 0, "points",
       [&](const bench::PointListener& listener) { return bench.run(run.trials(), listener); });
}

}  // namespace

void add_bench_attention(Command bench, const AppContext& context) {
  auto o = std::make_shared<BenchAttentionOptions>();
  Command app = bench.add_subcommand("attention", "Compare the forms of attention by length");
  app.add_option("--batch-size", o->bench.batch, "number of sequences at a time");
  app.add_option("--heads", o->bench.heads, "number of query heads");
  app.add_option("--kv-heads", o->bench.kv_heads,
                 "number of heads of keys and values, which divides --heads");
  app.add_option("--head-size", o->bench.head_sizes, "elements of a head, sizes to compare")
      .numbers();
  app.add_option(
         "--seq-len", o->bench.lengths,
         "tokens of a sequence, lengths to compare (default: 256 to 32768 by factors of 2, and of the standard form on until it fails to allocate)")
      .numbers();
  app.add_option("--phase", o->bench.phases, "what to time: prefill, decode or both in a list");
  app.add_option("--dtype", o->bench.dtypes,
                 "types of q, k and v, one or a list: fp32, bf16, fp16");
  app.add_option(
      "--form", o->bench.forms,
      "all, or a list of standard, memory-efficient, flash; in decode of standard, flash, paged");
  app.add_flag("--no-mask", o->no_mask,
               "prefill: all tokens attend to all others (default: to those before them)");
  app.add_option("--bytes", o->bench.bytes, bench::bytes_help());
  app.add_flag("--backward", o->bench.is_backward, "prefill: time forward and backward together");
  app.add_option("--budget", o->bench.budget_s,
                 "seconds for all points; those beyond it are predicted");
  add_bench_run_options(app, o->run);
  add_profile_option(app, o->run);
  app.footer(
      "standard keeps the T x T scores in memory; memory-efficient those of 256 queries at a time; flash\n"
      "none. paged reads a KV cache in blocks of 16 positions. Where the standard form needs more memory\n"
      "than is free, a child process that may allocate that much tries it and says how it failed. Where\n"
      "flash and standard were measured, --attention auto of train and generate takes the faster (ridge\n"
      "tune list).\n"
      "Examples:\n"
      "  ridge bench attention --heads 4 --kv-heads 2 --seq-len 64,128 --phase prefill,decode\n"
      "  ridge bench attention --head-size 64,128 --hardware h100 --dtype bf16 --format md\n"
      "  ridge bench attention --no-mask --dtype bf16 --head-size 128 --hardware a6000");
  app.callback([o, app, &context] { run(*o, app, context); });
}

}  // namespace ridge::apps
