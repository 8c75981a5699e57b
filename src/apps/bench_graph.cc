// SPDX-License-Identifier: Apache-2.0
// ridge bench graph FILE: a graph in the text form, rewritten, costed and timed at each level.
// Not a subcommand.
#include <fmt/format.h>

#include <memory>

#include "apps/bench_run.h"
#include "base/printable.h"
#include "bench/graph_file.h"

namespace ridge::apps {
namespace {

struct BenchGraphOptions {
  std::string file;
  std::string levels = "baseline,compiled";
  std::string switches;
  bool is_backward = false;
  BenchRunOptions run;
};

void run(const BenchGraphOptions& o, const Command& app, const AppContext& context) {
  check(o.run, app);
  const std::vector<std::string> levels = parse_levels(o.levels, "level");
  std::vector<passes::Selection> selections;
  for (const std::string& level : levels) selections.emplace_back(level, o.switches);
  const bench::TrialGraph trial = bench::read_graph(o.file);
  BenchRun run(o.run, context, false);
  record::BenchRecord bench;
  bench.kind = "graph";
  bench.name = printable(o.file);
  bench.dtype = "the graph's types";
  for (const passes::Selection& selection : selections)
    for (bool backward : {false, true}) {
      if (run.is_stopped() || (backward && !o.is_backward)) continue;
      bench::TrialSetting setting;
      setting.selection = selection;
      setting.is_backward = backward;
      record::BenchPoint point = run.trials().point(trial, setting);
      if (run.is_stopped()) continue;
      point.name = o.file;
      point.form = selection.level();
      if (o.is_backward) point.phase = backward ? "forward+backward" : "forward";
      bench.points.push_back(std::move(point));
    }
  finish(run, std::move(bench));
}

}  // namespace

void add_bench_graph(Command bench, const AppContext& context) {
  auto o = std::make_shared<BenchGraphOptions>();
  Command app =
      bench.add_subcommand("graph", "Plan, rewrite and time a graph of your own, in the text form");
  app.add_option("FILE", o->file, "a graph as ridge explain --graph --plain prints them")
      .required();
  app.add_option("--level", o->levels,
                 "levels to compare: all, or a list of baseline, fused, kernels and compiled");
  app.add_option("--pass", o->switches, "turn passes on or off at each level: +NAME,-NAME");
  app.add_flag("--backward", o->is_backward,
               "append the gradients of all floating-point operands, and time both together too");
  add_bench_run_options(app, o->run);
  add_profile_option(app, o->run);
  app.footer(
      "Operands are filled with random numbers; ids are below the extent that they index.\n"
      "A graph is a list of values and nodes:\n"
      "  %0 = input f32[64,128] \"x\"\n"
      "  %1 = parameter f32[256,128] \"weight\"\n"
      "  %2 : f32[64,256] = matmul(%0, %1) {einsum=\"nd,fd->nf\"} #forward\n"
      "  %3 : f32[64,256] = gelu_tanh(%2) #forward\n"
      "  return %3\n"
      "Sums of products of any number of operands are einsum(%0, %1, %0) {einsum=\"bi,oij,bj->bo\"}, and\n"
      "rearrange(%2) {pattern=\"(b t) o -> b t o\", sizes=\"b=4\"} splits, permutes and merges axes.\n\n"
      "Examples:\n"
      "  ridge bench graph mlp.txt\n"
      "  ridge bench graph mlp.txt --backward --level all --format md");
  app.callback([o, app, &context] { run(*o, app, context); });
}

}  // namespace ridge::apps
