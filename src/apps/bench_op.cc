// SPDX-License-Identifier: Apache-2.0
// ridge bench op NAME: one op at any size, or on its test cases and the sizes of the presets.
// Not a subcommand.
#include <fmt/format.h>

#include <memory>

#include "apps/bench_run.h"
#include "base/error.h"
#include "base/process_memory.h"
#include "base/units.h"
#include "bench/module_trial.h"
#include "bench/op_bench.h"
#include "ops/registry.h"

namespace ridge::apps {
namespace {

struct BenchOpOptions {
  std::string op;
  bench::OpBenchOptions bench;
  std::string memory_limit;
  BenchRunOptions run;
};

void run_shapes(const BenchOpOptions& o, const bench::OpShape& shape, const AppContext& context) {
  bench::OpBenchOptions options = o.bench;
  const bool on_gpu = planning::is_gpu_plan(o.run.hardware, is_gpu(o.run.machine));
  options.is_gpu_sheet = o.run.is_gpu_sheet();
  options.library = on_gpu ? "cublas" : "onednn";
  options.limits_memory = !o.memory_limit.empty();
  const bench::OpBench bench(options, shape);
  BenchRun run(o.run, context, bench.is_tf32());
  if (options.limits_memory) limit_memory(parse_bytes(o.memory_limit, "memory-limit"));
  show(run, shape.name, bench.size(), "points",
       [&](const bench::PointListener& listener) { return bench.run(run.trials(), listener); });
}

void run_cases(const BenchOpOptions& o, const AppContext& context) {
  const bench::OpCaseBench bench(o.op, o.bench);
  if (o.run.hardware != "this" || o.run.runs_nothing())
    throw usage_error(
        "[shape] expected --shape or --sweep with {}, as `ridge bench op matmul --shape n=1024`",
        o.run.is_counts         ? "--counts"
        : o.run.is_planned_only ? "--plan"
                                : "--hardware");
  BenchRun run(o.run, context, bench.is_tf32());
  const std::vector<Case> cases = bench.cases(run.trials());
  show(run, o.op, std::ssize(cases), "cases", [&](const bench::PointListener& listener) {
    return bench.run(cases, run.trials(), listener);
  });
}

std::string letters_help() {
  std::string text = "Letters, with their meaning and usual extent:\n";
  for (const std::string& line : bench::letter_lines()) text += wrap_lines("  " + line, 100);
  return text;
}

void run(const BenchOpOptions& o, const Command& app, const AppContext& context) {
  check(o.run, app);
  const bool has_size = !o.bench.shape.empty() || !o.bench.sweeps.empty();
  app.refuse_unused({{!has_size,
                      "without --shape or --sweep",
                      {"--backward", "--layout", "--implementation", "--causal", "--fit", "--cold",
                       "--warm", "--seconds", "--profile", "--bytes"}},
                     {o.bench.tune, "with --tune", {"--implementation"}}});
  if (!has_size) return run_cases(o, context);
  const bench::OpShape* shape = bench::find_op_shape(o.op);
  if (shape == nullptr) {
    ops::table().at(o.op);  // an unknown op is refused by its name
    throw usage_error(
        "[shape] expected one of {}, got {}, whose test cases `ridge bench op {}` times",
        bench::op_shape_names(), o.op, o.op);
  }
  if (o.bench.tune && shape->op != "matmul")
    throw usage_error("[tune] --tune has no effect on {}; it chooses algorithms of matmul", o.op);
  run_shapes(o, *shape, context);
}

}  // namespace

void add_bench_op(Command bench, const AppContext& context) {
  auto o = std::make_shared<BenchOpOptions>();
  Command app = bench.add_subcommand(
      "op", "Time an op at any size, or on its cases and the sizes of presets");
  app.add_option("NAME", o->op, "an op: matmul, softmax, rms_norm ...").required();
  app.add_option(
      "--shape", o->bench.shape,
      "extents by the op's letters, listed below: n=1024,k=1024,m=1024 (default: the usual ones)");
  app.add_option(
         "--sweep", o->bench.sweeps,
         "extents that vary: n=256:4096*2 (times 2), n=1:9+2 (plus 2), n=1,8,64 (a list), n=k=m=... "
         "(several letters together); each further sweep is combined with those before")
      .one_value();
  app.add_option(
      "--dtype", o->bench.dtype,
      "type of the operands: fp32, tf32 (a GPU rounds the fp32 inputs of GEMMs to TF32), bf16 or fp16; for the weights of GEMMs "
      "and tables also f16, q8_0, q4_k and the other types of GGUF files");
  app.add_option(
      "--layout", o->bench.layout,
      "variant of the op: matmul nt (x W^T), nn, tn or tt; copy rows or transposed; reduce_sum rows or "
      "columns; glu silu or gelu_tanh; rope halves or interleaved (default: the first)");
  app.add_option(
      "--implementation", o->bench.implementation,
      "ways in which Ridge runs the op: all, or a list such as flash,standard (default: the "
      "first)");
  app.add_flag("--causal", o->bench.is_causal, "attention: each token attends to those before it");
  app.add_flag("--backward", o->bench.is_backward,
               "add a point with the forward and the backward pass together");
  app.add_flag("--fit", o->bench.fits, "fit time = a x size^b to the points of the sweep");
  app.add_flag("--tune", o->bench.tune,
               "for matmul: choose the library's GEMM algorithm by timing, as level compiled does");
  app.add_option(
      "--memory-limit", o->memory_limit,
      "memory of this process, such as 4GiB; what does not fit fails to allocate (default: all)");
  app.add_option("--bytes", o->bench.bytes, bench::bytes_help());
  add_bench_run_options(app, o->run);
  add_profile_option(app, o->run);
  app.footer(
      letters_help() +
      "\nCtrl-C ends a sweep after the present point and prints what was measured.\n"
      "Examples:\n"
      "  ridge bench op softmax\n"
      "  ridge bench op matmul --shape n=256,k=256,m=256 --dtype bf16 --device cpu --threads 1 --json\n"
      "  ridge bench op matmul --sweep n=k=m=64:256*2 --fit --format md\n"
      "  ridge bench op matmul --sweep n=k=m=512:8192*2 --counts\n"
      "  ridge bench op attention --shape b=1,h=16,k=4,t=4096,e=128 --causal --hardware a6000 --dtype bf16\n"
      "  ridge bench op attention --shape h=2,k=2,t=128 --causal --implementation all --backward\n"
      "  ridge bench op gemv --shape k=1024,m=1024 --dtype q8_0 --cold\n"
      "  ridge bench op matmul --sweep n=k=m=128,512 --profile --out kernels");
  app.callback([o, app, &context] { run(*o, app, context); });
}

}  // namespace ridge::apps
