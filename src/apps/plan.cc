// SPDX-License-Identifier: Apache-2.0
// ridge plan: predicts the memory and time of training or inference from a graph and a machine's
// ceilings. Runs nothing.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "apps/plan_options.h"
#include "apps/rank_options.h"
#include "apps/subcommand.h"
#include "apps/this_machine.h"
#include "base/error.h"
#include "planning/plans.h"
#include "planning/rank_plan.h"
#include "planning/tensor_plan.h"
#include "report/plan_report.h"
#include "report/rank_plan.h"
#include "serve/session_choice.h"

namespace ridge::apps {
namespace {

void plan_parameters(const PlanOptions& o, const Command& app, const TerminalOptions& terminal) {
  expect_sane(o);
  // Without --dtype as large models are trained.
  LevelOptions level;
  level.dtype = o.training.level.tf32  ? "tf32"
                : app.given("--dtype") ? o.training.level.dtype
                                       : "bf16";
  const passes::Selection selection("baseline", switch_text(level));
  const MachineOptions& machine = o.training.machine;
  const std::string dtype(selection.has("autocast_f16") ? "fp32" : selection.gemm_dtype());
  const auto plans = planning::plan_parameters(
      {o.layout, o.parameters, o.tokens, o.assumed_mfu, dtype},
      planning::choose_hardware_list(o.hardware, this_machine(machine, selection, terminal, false),
                                     selection.has("tf32")));
  fmt::print("{}", o.json ? report::parameter_plan_json(plans)
                          : report::parameter_plan_text(plans, terminal));
}

// The plan of several ranks on the first hardware.
void plan_ranks(const PlanOptions& o,
                TrainingChoice choice,
                const std::vector<planning::TargetHardware>& places,
                const TerminalOptions& terminal) {
  train::RankSharing sharing = o.pipeline;
  if (o.layout.zero.size() == 1) sharing.zero = o.layout.zero[0] - '0';  // not "auto"
  sharing.sequence_parallel = o.sequence_parallel;
  const int64_t stages = o.pipeline.pipeline_parallel;
  const runtime::RankLayout ranks{o.fake_ranks / o.tensor_parallel / stages, o.tensor_parallel,
                                  stages};
  choice.add_switch(train::layout_switches(ranks, sharing));
  choice.step.shard.stages = stages;
  choice.step.pipeline = train::pipeline_of(ranks, sharing);
  choice.add_switch(planning::recompute_switch(o.recompute));
  train::TrainingSetup setup = choice.setup(o.training.machine);
  setup.step.optimizer.clip_norm = o.clip_norm;
  places[0].name_in(setup.setting);
  const record::RankPlan plan =
      planning::plan_ranks(setup, o.fake_ranks, places[0].target_of(setup.selection),
                           &places[0].ceilings, search_bars(terminal));
  fmt::print("{}", o.json ? report::rank_plan_json(plan) : report::rank_plan_text(plan, terminal));
}

void plan_training(const PlanOptions& o, const Command& app, const TerminalOptions& terminal) {
  expect_sane(o);
  TrainingOptions training = o.training;
  training.batch_size = one_size(app, o.batch_sizes, "--batch-size");
  training.sequence = one_size(app, o.lengths, "--seq-len");
  const TrainingChoice choice = choose_training(training, app);
  const std::string recompute = planning::recompute_switch(o.recompute);
  for (const char* pass : {"recompute", "recompute_attention", "recompute_nested"})
    if (!recompute.empty() && choice.selection.has(pass))
      throw usage_error("[recompute] expected either --recompute {} or --pass +{}, got both",
                        o.recompute, pass);
  std::vector<planning::TargetHardware> places = planning::choose_hardware_list(
      o.hardware, this_machine(training.machine, choice.selection, terminal, false),
      choice.selection.has("tf32"));
  for (planning::TargetHardware& place : places) planning::set_enqueue_time(place, o.enqueue_us);
  for (const planning::TargetHardware& place : places)
    expect_effect(choice.switches, passes::Serves::kTraining, *place.planned);
  if (o.fake_ranks != 0) return plan_ranks(o, choice, places, terminal);
  planning::TrainingPlanRequest request{choice.setup(training.machine), o.layout, o.recompute,
                                        o.tokens, o.assumed_mfu};
  request.setup.step.optimizer.clip_norm = o.clip_norm;
  const auto plans = planning::plan_training(request, places, search_bars(terminal));
  fmt::print("{}", o.json ? report::training_plan_json(plans)
                          : report::training_plan_text(plans, o.verbose, terminal));
}

// The plan of ranks that share a model, for the first batch and length.
void plan_shared_model(const PlanOptions& o,
                       const models::ModelFile& file,
                       const planning::InferencePlanRequest& request,
                       const passes::Selection& alone,
                       const planning::TargetHardware& place,
                       const TerminalOptions& terminal) {
  serve::PhaseSetup setup = request.setup;
  place.name_in(setup.setting);
  if (!request.batches.empty()) setup.batch = request.batches[0];
  if (!request.lengths.empty()) setup.length = request.lengths[0];
  const record::RankPlan plan = planning::plan_tensor_ranks(
      file, setup, alone, place.target_of(setup.selection), &place.ceilings, search_bars(terminal));
  fmt::print("{}", o.json ? report::rank_plan_json(plan) : report::rank_plan_text(plan, terminal));
}

void plan_inference(const PlanOptions& o, const TerminalOptions& terminal) {
  const TrainingOptions& t = o.training;
  std::string name = std::filesystem::path(o.model).stem().string();
  const models::ModelFile file = [&] {
    if (!o.model.empty()) return models::ModelFile::open(o.model);
    const ModelChoice choice = choose_model(t.model);
    name = choice.name;
    return models::ModelFile::of_shape(choice.config);
  }();
  const bool this_is_gpu = o.hardware == "this" && is_gpu(t.machine);
  const serve::Arithmetic arithmetic{planning::is_gpu_plan(o.hardware, this_is_gpu), o.exact,
                                     o.fast_8bit};
  planning::InferencePlanRequest request;
  serve::PhaseSetup& setup = request.setup;
  const passes::Selection alone =
      serve::inference_selection(arithmetic, t.level.level, t.level.switches);
  setup.selection = serve::inference_selection(
      arithmetic, t.level.level,
      passes::with_switch(t.level.switches,
                          o.sharing_ranks() == 1
                              ? ""
                              : fmt::format("+shard_tensor_parallel={}", o.sharing_ranks())));
  setup.cache_dtype = serve::chosen_cache_dtype(o.cache_dtype, arithmetic, setup.selection);
  setup.chunk = o.chunk.value_or(serve::usual_chunk(arithmetic.on_gpu));
  planning::TargetHardware place = planning::choose_hardware(
      o.hardware, this_machine(t.machine, setup.selection, terminal), setup.selection.has("tf32"));
  planning::set_enqueue_time(place, o.enqueue_us);
  expect_effect(t.level.switches, passes::Serves::kInference, *place.planned);
  setup.setting = make_setting(name, t.machine, setup.selection, t.level.switches);
  if (!o.batch_sizes.empty()) request.batches = parse_sizes(o.batch_sizes, "batch-size");
  if (!o.lengths.empty()) request.lengths = parse_sizes(o.lengths, "seq-len");
  if (o.fake_ranks != 0) return plan_shared_model(o, file, request, alone, place, terminal);
  const record::InferencePlan plan =
      planning::plan_inference(file, request, place, search_bars(terminal));
  fmt::print("{}", o.json ? report::inference_plan_json(plan)
                          : report::inference_plan_text(plan, o.verbose, terminal));
}

void run(const PlanOptions& o, const Command& app, const TerminalOptions& terminal) {
  refuse_unused(o, app);
  if (app.given("--parameters")) return plan_parameters(o, app, terminal);
  if (!o.plans_inference()) return plan_training(o, app, terminal);
  if (!o.model.empty() && (app.given("--preset") || app.given("--config")))
    throw usage_error("[model] expected one of --model, --preset and --config, got two");
  plan_inference(o, terminal);
}

}  // namespace

void register_plan(Command program, const AppContext& context) {
  auto o = std::make_shared<PlanOptions>();
  Command app = program.add_subcommand(
      "plan", "Predict time and memory of training or inference without a run");
  add_plan_options(app, *o);
  app.footer(
      "A training plan predicts the time of a step, the days for a token budget, and what fits.\n"
      "An inference plan (--inference, or --model FILE) predicts TTFT (time to first token: a prefill\n"
      "of all prompts) and TPOT (time per output token: one decode step of every sequence). Prefill is\n"
      "compute-bound (see MFU) and decode is memory-bound (see MBU), so a larger decode batch costs\n"
      "little extra time until the KV cache is as large as the weights. ridge infer-lab prints the same\n"
      "predictions next to its measurements. An inference plan refuses the options of a training plan\n"
      "(--micro-batches, --recompute, --tokens, --devices, --dtype and others); on a GPU it uses bf16,\n"
      "or fp32 with --exact.\n\n"
      "--hardware FILE reads what `ridge machine --json` prints, or a data sheet (dense rates in 1e12\n"
      "per second; name, peaks.f32, memory_tera_bytes and memory_bytes are required):\n"
      "  {\"name\": \"my-gpu\", \"peaks\": {\"f32\": 19.5, \"bf16\": 312}, \"tf32_tera_flops\": 156,\n"
      "   \"vector_tera_flops\": 19.5, \"memory_tera_bytes\": 2.0, \"memory_bytes\": 80000000000,\n"
      "   \"cache_bytes\": 40000000, \"interconnect_giga_bytes\": 600, \"board_watts\": 400}\n\n"
      "Examples:\n"
      "  ridge plan --preset small\n"
      "  ridge plan --preset large --hardware h100 --dtype bf16 --tokens 20e9\n"
      "  ridge plan --parameters 70e9 --tokens 15e12 --devices 1024 --hardware h100 --mfu 0.5 --price 2.5\n"
      "  ridge plan --config llama-2-7b --dtype bf16 --devices 8 --recompute block --hardware a100,h100\n"
      "  ridge plan --preset small --fake-ranks 64 --tensor-parallel 2\n"
      "  ridge plan --preset small --freeze '*embed_tokens*'\n"
      "  ridge plan --config config.json --hardware my_machine.json --batch-size 4 --json\n"
      "  ridge plan --inference --config Llama-2-7B/config.json --hardware h200 --seq-len 2048\n"
      "  ridge plan --inference --config llama-2-70b --hardware h100 --tensor-parallel 4\n"
      "  ridge plan --model SmolLM2-135M-Instruct.Q4_1.gguf");
  app.callback([o, app, &context] { run(*o, app, context.terminal); });
}

}  // namespace ridge::apps
