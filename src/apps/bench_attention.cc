// SPDX-License-Identifier: Apache-2.0
// ridge bench attention: the forms of attention by length, until the standard form fails to allocate. Not a subcommand.
#include "apps/bench_attention.h"

#include <memory>

#include "apps/bench_run.h"
#include "apps/tuning_files.h"
#include "base/error.h"
#include "bench/attention_bench.h"

namespace ridge::apps {
namespace {

struct BenchAttentionOptions {
  bench::AttentionBenchOptions bench;
  std::string head_sizes = "64";
  std::string lengths;  // empty: from 256 on
  double budget_s = 60;
  BenchRunOptions run;
};

void run(BenchAttentionOptions o, const Command& app, const AppContext& context) {
  check(o.run, app);
  constexpr double kMostSeconds = 24 * 3600;
  if (!(o.budget_s > 0 && o.budget_s <= kMostSeconds))
    throw usage_error("[budget] expected more than 0 and at most {:g} seconds, got {:g}",
                      kMostSeconds, o.budget_s);
  o.bench.budget_ns = 1e9 * o.budget_s;
  o.bench.goes_on = o.lengths.empty();
  if (o.bench.goes_on)
    for (int64_t t = 256; t <= 32768; t *= 2) o.bench.lengths.push_back(t);
  else
    o.bench.lengths = parse_sizes(o.lengths, "seq-len");
  o.bench.head_sizes = parse_sizes(o.head_sizes, "head-size");
  if (!o.run.machine.device.empty()) o.bench.child_arguments = {"--device", o.run.machine.device};
  if (o.run.machine.threads > 0)
    o.bench.child_arguments.insert(o.bench.child_arguments.end(),
                                   {"--threads", std::to_string(o.run.machine.threads)});
  o.bench.keep = [&](const bench::AttentionCall& call, double flash_ns, double standard_ns) {
    attention_choices(o.run.machine).keep(call, flash_ns, standard_ns);
  };
  bench::AttentionBench bench(o.bench);
  BenchRun run(o.run, context, false);
  show(run, "attention", 0, "points",
       [&](const bench::PointListener& listener) { return bench.run(run.trials(), listener); });
}

}  // namespace

void add_bench_attention(Command bench, const AppContext& context) {
  auto o = std::make_shared<BenchAttentionOptions>();
  Command app = bench.add_subcommand("attention", "Compare the forms of attention by length");
  app.add_option("--batch-size", o->bench.batch, "number of sequences at a time").show_default();
  app.add_option("--heads", o->bench.heads, "number of query heads").show_default();
  app.add_option("--kv-heads", o->bench.kv_heads,
                 "number of heads of keys and values, which divides --heads")
      .show_default();
  app.add_option("--head-size", o->head_sizes, "elements of a head, sizes to compare")
      .numbers()
      .show_default();
  app.add_option(
         "--seq-len", o->lengths,
         "tokens of a sequence, lengths to compare (default: 256 to 32768 by factors of 2, and of the standard form on until it fails to allocate)")
      .numbers();
  app.add_option("--phase", o->bench.phases, "what to time: prefill, decode or both in a list")
      .show_default();
  app.add_option("--dtype", o->bench.dtypes, "type of q, k and v: fp32, bf16 or both in a list")
      .show_default();
  app.add_option(
         "--form", o->bench.forms,
         "all, or a list of standard, memory-efficient, flash; in decode of standard, flash, paged")
      .show_default();
  app.add_flag("--backward", o->bench.is_backward, "prefill: time forward and backward together");
  app.add_option("--budget", o->budget_s, "seconds for all points; those beyond it are predicted")
      .show_default();
  add_bench_run_options(app, o->run);
  app.footer(
      "standard keeps the T x T scores in memory; memory-efficient those of 256 queries at a time; flash\n"
      "none. paged reads a KV cache in blocks of 16 positions. Where the standard form needs more memory\n"
      "than is free, a child process that may allocate that much tries it and says how it failed. Where\n"
      "flash and standard were measured, --attention auto of train and generate takes the faster (ridge\n"
      "tune list).\n"
      "Examples:\n"
      "  ridge bench attention --heads 4 --kv-heads 2 --seq-len 64,128 --phase prefill,decode\n"
      "  ridge bench attention --head-size 64,128 --hardware h100 --dtype bf16 --format md");
  app.callback([o, app, &context] { run(*o, app, context); });
}

}  // namespace ridge::apps
