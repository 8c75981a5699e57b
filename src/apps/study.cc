// SPDX-License-Identifier: Apache-2.0
// ridge study inference: prefill and decode of a model by technique, batch size, length and type,
// predicted and measured.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>

#include "apps/bench_run.h"
#include "apps/inference_options.h"
#include "base/error.h"
#include "base/split.h"
#include "base/units.h"
#include "bench/extents.h"
#include "bench/technique_study.h"
#include "models/known_shapes.h"

namespace ridge::apps {
namespace {

struct StudyOptions {
  std::string model;
  std::string techniques = "all";
  std::string batch_sizes = "1,8";
  std::string lengths;
  std::string dtypes;
  std::string budget = "60s";
  BenchRunOptions run;
};

// Returns whether Ctrl-C ended it.
bool measure(const StudyOptions& o, const AppContext& context) {
  const models::ModelFile file = bench::open_studied(o.model);
  bench::StudyChoice choice;
  choice.title = bench::study_title(file, o.model);
  choice.on_gpu = planning::is_gpu_plan(o.run.hardware, is_gpu(o.run.machine));
  choice.techniques = bench::choose_techniques(o.techniques);
  choice.batches = parse_sizes(o.batch_sizes, "batch-size");
  choice.lengths = o.lengths.empty() ? bench::usual_lengths(file.config().context)
                                     : parse_sizes(o.lengths, "seq-len");
  const char* const dtype = file.has_weights() ? bench::kStoredType : "bf16";
  choice.dtypes = split(o.dtypes.empty() ? dtype : o.dtypes);
  choice.budget_ns = parse_budget_ns(o.budget, "budget");
  const RankOptions& ranks = o.run.ranks;
  choice.ranks = std::max<int64_t>(ranks.tensor_parallel, 1);
  if (ranks.joined != nullptr) {
    choice.ranks = ranks.joined->layout().tensor, choice.rank = ranks.joined->tensor_rank();
    choice.any = [&](bool here) { return ranks.any(here); };
  }
  bench::validate(choice, file);
  BenchRun run(o.run, context, false);
  bench::TechniqueStudy study(file, choice, run.trials(),
                              [&](const passes::Selection& selection, const std::string& switches) {
                                return make_setting(choice.title, o.run.machine, selection,
                                                    switches);
                              });
  Progress progress("study", choice.points() * 2, "points", context.terminal);
  record::BenchRecord made =
      study.run([&](int64_t points, const std::string& note) { progress.tick(points, note); });
  progress.hide();
  run.print(made);
  const bool is_stopped = run.is_stopped();
  if (const std::string refused = bench::lacking_memory(made); !is_stopped && !refused.empty())
    throw memory_error("[study] {}", refused);
  return is_stopped;
}

void run_study(StudyOptions& o, const AppContext& context) {
  if (o.run.ranks.tensor_parallel < 0)  // where ranks run, joining them checks it
    throw usage_error("[tensor-parallel] expected at least 1 rank, got {}",
                      o.run.ranks.tensor_parallel);
  if (o.run.runs_here()) join_ranks(o.run.ranks, o.run.machine);
  bool is_stopped = false;
  run_as_rank(o.run.ranks, "", [&] {
    is_stopped = measure(o, context);
    return 0;
  });
  if (is_stopped) end_by_interrupt();
}

std::string techniques_help() {
  std::string text = "Techniques:\n";
  for (const bench::Technique& each : bench::techniques())
    text += fmt::format("  {:<17} {}\n", each.name, each.summary);
  return text;
}

void add_study_inference(Command study, const AppContext& context) {
  auto o = std::make_shared<StudyOptions>();
  Command app = study.add_subcommand(
      "inference", "Compare techniques of prefill and decode of a model or configuration");
  app.add_option("MODEL", o->model,
                 models::known_shape_names() +
                     ", a config.json (these with random weights), or a model with weights")
      .required();
  app.add_option("--techniques", o->techniques, "all, or a list of those below, in this order");
  app.add_option("--batch-size", o->batch_sizes, "numbers of sequences at a time").numbers();
  app.add_option(
         "--seq-len", o->lengths,
         "tokens of a prompt, and keys of a decode's context (default: 128,512, or less if the model's context is shorter)")
      .numbers();
  app.add_option(
      "--dtype", o->dtypes,
      "types to compare: fp32, bf16 and, of a model with weights, file (as it stores them); default: "
      "bf16 of a configuration, file of a model");
  app.add_option("--budget", o->budget,
                 "time for all measurements: 60s, 2m; points beyond it are predicted");
  add_bench_place_options(app, o->run);
  add_tensor_options(app, o->run.ranks);
  app.footer(
      techniques_help() +
      "\nCtrl-C ends the study after the present point and prints what was measured.\n"
      "Examples:\n"
      "  ridge study inference tiny --batch-size 1,2 --seq-len 32 --budget 5s\n"
      "  ridge study inference llama-2-7b --batch-size 1,8,16 --seq-len 2048 --hardware h200\n"
      "  ridge study inference llama-2-7b --tensor-parallel 2 --budget 3m\n"
      "  ridge study inference gemma3-270m --techniques eager,flash,tuned --plan --json");
  app.callback([o, app, &context] {
    check(o->run, app);
    app.refuse_unused(
        {{!o->run.runs_here(), "where nothing is run", {"--gpus", "--collective-timeout"}}});
    run_study(*o, context);
  });
}

}  // namespace

void register_study(Command program, const AppContext& context) {
  Command app = program.add_subcommand("study", "Compare techniques over sizes of a model");
  app.require_subcommand();
  add_study_inference(app, context);
  app.footer("Examples:\n  ridge study inference tiny --batch-size 1 --seq-len 32 --budget 5s");
}

}  // namespace ridge::apps
