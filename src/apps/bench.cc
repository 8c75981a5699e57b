// SPDX-License-Identifier: Apache-2.0
// ridge bench op NAME: times one op and compares it with the machine's limit. bench_model.cc has
// ridge bench model.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "apps/bench_model.h"
#include "apps/bench_serve.h"
#include "apps/machine_ceilings.h"
#include "apps/model_options.h"
#include "apps/output_folder.h"
#include "apps/subcommand.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/units.h"
#include "bench/op_trial.h"
#include "ops/registry.h"
#include "report/bench_files.h"

namespace ridge::apps {
namespace {

struct BenchOptions {
  std::string op;
  LevelOptions level;  // only its dtype can be set
  MachineOptions machine;
  OutputOptions output;
  bool json = false;
  bool tune = false;
};

std::string table_text(const std::vector<bench::OpTrial>& trials, const TerminalOptions& options) {
  Table table({{"case", Align::kLeft},
               {"inputs", Align::kLeft},
               {"time"},
               {"95% interval", Align::kRight, 3},
               {"FLOPs", Align::kRight, 4},
               {"bytes", Align::kRight, 5},
               {"rate", Align::kRight, 1},
               {"bandwidth", Align::kRight, 2},
               {"predicted"},
               {"bound", Align::kLeft},
               {"share of limit"}});
  for (const bench::OpTrial& t : trials) {
    if (!t.refused.empty()) {
      table.add({t.name, t.types, "not run", terminal_safe(t.refused, kLongestMessage)});
      continue;
    }
    double ns = t.time.median;
    table.add({t.name, t.types, format_ns(ns),
               fmt::format("{} - {}", format_ns(t.time.low), format_ns(t.time.high)),
               format_count(static_cast<double>(t.cost.work.flops)), format_bytes(t.cost.bytes()),
               t.cost.work.flops == 0
                   ? "-"
                   : format_rate(static_cast<double>(t.cost.work.flops) / ns * 1e9, "FLOP/s"),
               format_rate(static_cast<double>(t.cost.bytes()) / ns * 1e9, "B/s"),
               format_ns(t.predicted_ns), std::string(t.bound_by()),
               t.limit_share() ? fmt::format("{:.0f}%", 100 * *t.limit_share()) : "faster"});
  }
  return table.text(options);
}

// Why an op can be faster than its prediction.
std::string faster_note(const cost::Ceilings& ceilings) {
  if (ceilings.disturbed())
    return fmt::format(
        "faster: than predicted, because other programs used {:.0f}% of the cores while the ceilings "
        "were measured, so they are too low; ridge machine --remeasure measures them again.\n",
        100 * ceilings.others_share);
  return "faster: than predicted, because a prediction is no exact limit: it adds the mean time of a "
         "call, and it interpolates between the sizes for which rates were measured.\n";
}

report::Json json_of(const BenchOptions& o,
                     const std::vector<bench::OpTrial>& trials,
                     const cost::Ceilings& ceilings) {
  report::Json json = {{"op", o.op},
                       {"dtype", o.level.dtype},
                       {"device", ceilings.machine.device},
                       {"threads", ceilings.machine.threads},
                       {"cases", report::Json::array()}};
  for (const bench::OpTrial& t : trials)
    json["cases"].push_back(
        {{"name", t.name},
         {"inputs", t.types},
         {"refused", t.refused},
         {"median_ns", t.time.median},
         {"low_ns", t.time.low},
         {"high_ns", t.time.high},
         {"samples", t.time.count},
         {"flops", t.cost.work.flops},
         {"macs", t.cost.work.macs},
         {"bytes", t.cost.bytes()},
         {"predicted_ns", t.predicted_ns},
         {"bound", name(t.bound)},
         {"level", t.level},
         {"share_of_limit", t.limit_share() ? report::Json(*t.limit_share()) : nullptr}});
  return json;
}

void run(const BenchOptions& o, const AppContext& context) {
  const TerminalOptions& terminal = context.terminal;
  std::optional<OutputFolder> folder = requested_folder(o.output);
  LevelOptions level = o.level;
  if (o.tune) level.switches = "+tune_gemm";
  const passes::Selection selection("baseline", switch_text(level));
  const DType dtype = selection.activations();
  const Op& op = ops::table().at(o.op);
  if (op.kind == OpKind::kView)
    throw usage_error("[bench] '{}' is a view, which runs no kernel", o.op);
  if (o.tune && &op != &ops::matmul_op())
    throw usage_error("[tune] --tune has no effect on {}; it chooses algorithms of matmul",
                      op.name);
  auto backend = make_backend(o.machine, selection);
  cost::Ceilings ceilings = machine_ceilings(o.machine, selection.has("tf32"), terminal);
  std::vector<Case> cases;
  if (op.cases != nullptr)
    for (const Case& each : op.cases()) cases.push_back(bench::cast_case(each, dtype));
  for (Case& each : bench::preset_cases(op, dtype, *backend)) cases.push_back(std::move(each));
  for (Case& each : bench::stored_cases(op)) cases.push_back(std::move(each));
  if (cases.empty())
    throw usage_error("[bench] '{}' has no test cases, and no preset uses it", o.op);
  Progress progress(o.op, static_cast<int64_t>(cases.size()), "cases", terminal);
  std::vector<bench::OpTrial> trials;
  for (const Case& each : cases) {
    trials.push_back(bench::run_trial(op, each, *backend, ceilings));
    progress.tick(1, each.name);
  }
  progress.hide();
  if (folder) {
    record::LabRecord about;
    about.program = kProgram;
    about.command = context.command;
    about.finished_at = utc_now();
    about.ceilings = ceilings;
    folder->commit(report::bench_files(about, "op", json_of(o, trials, ceilings)));
  }
  if (o.json) {
    fmt::print("{}", report::json_text(json_of(o, trials, ceilings)));
    return;
  }
  const std::string heading = fmt::format(
      "{}\n{}, {} thread{}, {}", op.formula.empty() ? op.name : op.name + ": " + op.formula,
      terminal_safe(ceilings.machine.device), ceilings.machine.threads,
      ceilings.machine.threads == 1 ? "" : "s", o.level.dtype);
  fmt::print("{}\n{}", wrap_lines(heading, terminal.columns), table_text(trials, terminal));
  std::string notes =
      "The limit is the time that the measured ceilings predict for these counts. Each run uses the "
      "same operands, so small ones stay in a cache, and the limit is the rate of the cache that is "
      "the bound.\n";
  const bool is_any_faster = std::any_of(trials.begin(), trials.end(), [](const auto& t) {
    return t.refused.empty() && !t.limit_share();
  });
  if (is_any_faster) notes += faster_note(ceilings);
  fmt::print("\n{}", wrap_lines(notes, terminal.columns));
}

}  // namespace

void register_bench(Command program, const AppContext& context) {
  auto o = std::make_shared<BenchOptions>();
  Command app = program.add_subcommand("bench", "Time one op, a whole model, or a server");
  app.require_subcommand();
  Command op =
      app.add_subcommand("op", "Time an op on its test cases and on the sizes of the presets");
  op.add_option("NAME", o->op, "an op: matmul, softmax, rms_norm ...").required();
  op.add_option("--dtype", o->level.dtype,
                "fp32, tf32 (a GPU rounds the fp32 inputs of GEMMs to TF32) or bf16")
      .show_default();
  op.add_flag("--tune", o->tune,
              "for matmul: choose the library's GEMM algorithm by timing, as level compiled does");
  add_output_options(op, o->output, "folder for bench.json and report.html");
  op.add_json_flag(o->json);
  add_machine_options(op, o->machine);
  add_bench_model(app, context);
  add_bench_serve(app, context);
  const std::string examples =
      "Examples:\n"
      "  ridge bench op softmax\n"
      "  ridge bench op matmul --dtype bf16 --device cpu --threads 1 --json";
  op.footer(examples);
  app.footer(examples +
             "\n  ridge bench model gemma-3-270m-q4_k_m.gguf -p 512 -n 128"
             "\n  ridge bench serve http://localhost:8080 --clients 16");
  op.callback([o, op, &context] {
    op.refuse_unused({without_folder(o->output)});
    run(*o, context);
  });
}

}  // namespace ridge::apps
