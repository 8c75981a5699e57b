// SPDX-License-Identifier: Apache-2.0
// ridge bench graph FILE: a graph in the text form, rewritten, costed and timed at each level.
// Not a subcommand.
#include <fmt/format.h>

#include <charconv>
#include <map>
#include <memory>

#include "apps/bench_run.h"
#include "base/error.h"
#include "base/printable.h"
#include "base/split.h"
#include "bench/generated_source.h"
#include "bench/graph_file.h"
#include "bench/graph_run.h"
#include "bench/module_trial.h"
#include "bench/unfused_bytes.h"

namespace ridge::apps {
namespace {

struct BenchGraphOptions {
  std::string file;
  std::string levels = "baseline,compiled";
  std::string switches;
  bool is_backward = false;
  std::vector<std::string> values;
  bool shows_source = false;
  std::string bytes = "ridge";
  BenchRunOptions run;
};

// "w=3,1" for each operand.
std::map<std::string, std::vector<float>> parse_values(const std::vector<std::string>& texts) {
  std::map<std::string, std::vector<float>> values;
  for (const std::string& text : texts) {
    const size_t at = text.rfind('=');
    std::vector<float> numbers;
    for (const std::string& each : split(at == text.npos ? "" : text.substr(at + 1))) {
      float number = 0;
      const auto [end, fault] = std::from_chars(each.data(), each.data() + each.size(), number);
      if (fault != std::errc() || end != each.data() + each.size()) numbers.clear();
      if (fault != std::errc() || end != each.data() + each.size()) break;
      numbers.push_back(number);
    }
    if (numbers.empty())
      throw usage_error("[value] expected NAME=NUMBER,NUMBER..., got {}", printable(text));
    values[text.substr(0, at)] = std::move(numbers);
  }
  return values;
}

std::string results_text(const std::vector<bench::NamedResult>& results,
                         const TerminalOptions& terminal) {
  constexpr size_t kMost = 8;
  Table table("<name | <type | <values");
  for (const bench::NamedResult& each : results) {
    std::string values;
    for (size_t i = 0; i < each.values.size() && i < kMost; ++i)
      values += fmt::format("{}{:g}", i == 0 ? "" : ", ", each.values[i]);
    if (each.values.size() > kMost) values += ", ...";
    table.add({terminal_safe(each.name), each.type.str(), values});
  }
  return table.text(terminal);
}

// Computes the graph once on given numbers, or shows the source of its generated kernels.
void show_alone(const BenchGraphOptions& o,
                const std::vector<passes::Selection>& selections,
                const bench::TrialGraph& trial,
                BenchRun& run) {
  for (const passes::Selection& selection : selections) {
    bench::TrialSetting setting;
    setting.selection = selection;
    setting.is_backward = o.is_backward;
    if (selections.size() > 1) fmt::print("{}:\n", selection.level());
    fmt::print("{}", o.shows_source
                         ? bench::generated_source(trial, setting, run.trials().target(selection))
                         : results_text(
                               bench::run_on_values(trial, setting, run.trials().backend(selection),
                                                    parse_values(o.values)),
                               run.context().terminal));
  }
}

record::BenchPoint measure(const BenchGraphOptions& o,
                           const passes::Selection& selection,
                           bool backward,
                           const bench::TrialGraph& trial,
                           BenchRun& run) {
  bench::TrialSetting setting;
  setting.selection = selection;
  setting.is_backward = backward;
  record::BenchPoint point = run.trials().point(trial, setting);
  point.name = o.file;
  point.form = selection.level();
  if (o.is_backward) point.phase = backward ? "forward+backward" : "forward";
  if (o.bytes == "ridge" || backward) return point;
  point.unfused_bytes = bench::unfused_bytes(trial.graph);
  bench::limit_by_unfused_bytes(run.trials().ceilings(),
                                trial.graph.type(trial.graph.nodes[0].inputs[0]).dtype, point);
  return point;
}

void run(const BenchGraphOptions& o, const Command& app, const AppContext& context) {
  check(o.run, app);
  app.refuse_unused(
      {{!o.values.empty(),
        "with --value",
        {"--counts", "--plan", "--hardware", "--profile", "--seconds", "--source", "--bytes"}},
       {o.shows_source,
        "with --source",
        {"--counts", "--plan", "--profile", "--seconds", "--bytes"}}});
  bench::check_bytes_name(o.bytes);
  const std::vector<std::string> levels = parse_levels(o.levels, "level");
  std::vector<passes::Selection> selections;
  for (const std::string& level : levels) selections.emplace_back(level, o.switches);
  const bench::TrialGraph trial = bench::read_graph(o.file);
  BenchRun run(o.run, context, false);
  if (o.shows_source || !o.values.empty()) return show_alone(o, selections, trial, run);
  record::BenchRecord bench;
  bench.kind = "graph";
  bench.name = printable(o.file);
  bench.dtype = "the graph's types";
  bench.bytes = o.bytes;
  for (const passes::Selection& selection : selections)
    for (bool backward : {false, true}) {
      if (run.is_stopped() || (backward && !o.is_backward)) continue;
      record::BenchPoint point = measure(o, selection, backward, trial, run);
      if (!run.is_stopped()) bench.points.push_back(std::move(point));
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
  app.add_option(
         "--value", o->values,
         "compute the graph once on given numbers and show its results, and with --backward "
         "the gradients: NAME=3,1 for each operand by its name (default: time it on random "
         "numbers)")
      .one_value();
  app.add_flag("--source", o->shows_source,
               "show the CUDA source of each generated kernel and run nothing; no GPU is needed");
  app.add_option("--bytes", o->bytes, bench::bytes_help());
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
      "  ridge bench graph mlp.txt --backward --level all --format md\n"
      "  ridge bench graph mlp.txt --level compiled --source\n"
      "  ridge bench graph error.txt --level baseline --backward --value w=3,1 --value x=1,2");
  app.callback([o, app, &context] { run(*o, app, context); });
}

}  // namespace ridge::apps
