// SPDX-License-Identifier: Apache-2.0
// ridge plan: predicts the memory and time of a training run from the graph and a machine's
// ceilings. Runs nothing. plan_inference.cc plans inference.
#include <charconv>
#include <memory>
#include <optional>

#include "apps/model_options.h"
#include "apps/plan_inference.h"
#include "apps/plan_layout.h"
#include "apps/plan_parameters.h"
#include "apps/plan_place.h"
#include "apps/plan_training.h"
#include "apps/subcommand.h"
#include "base/error.h"
#include "base/printable.h"
#include "cost/hardware.h"

namespace ridge::apps {
namespace {

constexpr double kMostTokens = 1e18;

struct PlanOptions {
  TrainingOptions training;
  LayoutOptions layout;
  std::string hardware = "this";
  std::string recompute = "none";
  double parameters = 0;
  double tokens = 1e9;
  double assumed_mfu = 0.4;
  double clip_norm = 0;
  std::string batch_sizes, lengths;  // one number in a plan of training, lists in one of inference
  bool json = false;
  bool verbose = false;
  InferencePlanOptions inference;
};

void expect_sane_plan(const PlanOptions& o) {
  if (!(o.tokens >= 1 && o.tokens <= kMostTokens))
    throw usage_error("[tokens] expected 1 to {:g}, got {:g}", kMostTokens, o.tokens);
  if (!(o.assumed_mfu > 0 && o.assumed_mfu <= 1))
    throw usage_error("[mfu] expected a share in (0, 1], got {:g}", o.assumed_mfu);
  expect_sane(o.layout);
  expect_clip(o.clip_norm);
}

void run_parameters(const PlanOptions& o, const Command& app, const TerminalOptions& terminal) {
  expect_sane_plan(o);
  // Without --dtype as large models are trained.
  const std::string dtype = o.training.level.tf32  ? "tf32"
                            : app.given("--dtype") ? o.training.level.dtype
                                                   : "bf16";
  LevelOptions level;
  level.dtype = dtype;
  const passes::Selection selection("baseline", switch_text(level));
  const bool is_bf16 = selection.has("autocast_bf16");
  plan_parameters({o.layout, o.parameters, o.tokens, o.assumed_mfu,
                   is_bf16 ? DType::kBF16 : DType::kF32, selection.has("tf32"), o.json},
                  choose_places(o.hardware, o.training.machine, selection, terminal), terminal);
}

// The size that a plan of training has where a plan of inference has a list; none if the option was
// not given.
std::optional<int64_t> one_size(const Command& app, const std::string& text, const char* option) {
  if (!app.given(option)) return {};
  if (text.find(',') != std::string::npos)
    throw usage_error("[{}] expected one number, got the list {}", option + 2, printable(text));
  int64_t size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (error != std::errc() || end != text.data() + text.size())
    throw usage_error("[{}] expected a number >= 1, got {}", option + 2, printable(text));
  return size;
}

void run_training(const PlanOptions& o, const Command& app, const TerminalOptions& terminal) {
  expect_sane_plan(o);
  TrainingOptions training = o.training;
  training.batch_size = one_size(app, o.batch_sizes, "--batch-size");
  training.sequence = one_size(app, o.lengths, "--seq-len");
  const TrainingChoice choice(training, app);
  const std::string recompute = recompute_switch(o.recompute);
  for (const char* pass : {"recompute", "recompute_attention", "recompute_nested"})
    if (!recompute.empty() && choice.selection.has(pass))
      throw usage_error("[recompute] expected either --recompute {} or --pass +{}, got both",
                        o.recompute, pass);
  const std::vector<Place> places =
      choose_places(o.hardware, o.training.machine, choice.selection, terminal);
  for (const Place& place : places)
    expect_effect(choice.switches, passes::Serves::kTraining, *place.planned);
  plan_training({choice, o.training.machine, o.layout, o.recompute, o.tokens, o.assumed_mfu,
                 o.clip_norm, o.json, o.verbose},
                places, terminal);
}

void run(const PlanOptions& o, const Command& app, const TerminalOptions& terminal) {
  const bool is_counted = app.given("--parameters");
  app.refuse_unused(
      {{is_asked(o.inference),
        "in a plan of inference",
        {"--micro-batches", "--freeze", "--lora-rank",    "--lora-alpha",
         "--lora-targets",  "--clip",   "--tokens",       "--mfu",
         "--devices",       "--zero",   "--weight-dtype", "--gradient-dtype",
         "--moment-dtype",  "--link",   "--network",      "--node-devices",
         "--price",         "--watts",  "--recompute",    "--parameters",
         "--dtype",         "--tf32"}},
       {is_counted,
        "with --parameters",
        {"--preset", "--config", "--batch-size", "--seq-len", "--micro-batches", "--clip",
         "--freeze", "--lora-rank", "--lora-alpha", "--lora-targets", "--level", "--pass",
         "--recompute", "--link", "--network", "--node-devices", "--verbose"}},
       {o.layout.devices == 1,
        "without --devices",
        {"--zero", "--link", "--network", "--node-devices"}},
       {!is_asked(o.inference),
        "without --inference or --model",
        {"--chunk", "--exact", "--cache-dtype"}},
       {o.hardware != "this", "with --hardware", {"--device", "--threads", "--isa"}}});
  if (is_counted) {
    run_parameters(o, app, terminal);
    return;
  }
  if (!is_asked(o.inference)) {
    run_training(o, app, terminal);
    return;
  }
  if (!o.inference.model.empty() && (app.given("--preset") || app.given("--config")))
    throw usage_error("[model] expected one of --model, --preset and --config, got two");
  const TrainingOptions& t = o.training;
  plan_inference(
      {t.model, t.level, t.machine, o.hardware, o.batch_sizes, o.lengths, o.json, o.verbose},
      o.inference, terminal);
}

}  // namespace

void register_plan(Command program, const AppContext& context) {
  auto options = std::make_shared<PlanOptions>();
  Command app = program.add_subcommand(
      "plan", "Predict time and memory of training or inference without a run");
  add_model_options(app, options->training.model);
  add_level_option(app, options->training.level);
  add_switch_options(app, options->training.level);
  add_machine_options(app, options->training.machine);
  app.add_option("--batch-size", options->batch_sizes,
                 "sequences in a micro-batch (default: the preset's)")
      .numbers();
  app.add_option("--seq-len", options->lengths, "tokens in a sequence (default: the preset's)")
      .numbers();
  add_micro_batch_option(app, options->training);
  add_tuning_options(app, options->training);
  add_clip_option(app, options->clip_norm);
  app.add_option(
         "--hardware", options->hardware,
         "this, " + cost::hardware_names() +
             ", or a JSON file (see below); a list of names for training plans side by side")
      .show_default();
  app.add_option("--tokens", options->tokens, "token budget").show_default();
  app.add_option("--mfu", options->assumed_mfu, "assumed MFU for a second estimate of the days")
      .show_default();
  app.add_option("--parameters", options->parameters,
                 "plan from a number of parameters alone, in bf16 unless --dtype is given");
  app.add_option(
         "--recompute", options->recompute,
         "what the backward pass computes again: none, attention (scores), block (all but "
         "the input of each layer), full (all but the input of every sqrt(L)-th of L layers, "
         "and twice); short for --pass +recompute_attention, +recompute, +recompute_nested")
      .show_default();
  add_layout_options(app, options->layout);
  app.add_verbose_flag(options->verbose).excludes(app.add_json_flag(options->json));
  add_inference_plan_options(app, options->inference);
  app.footer(
      "A training plan predicts the time of a step, the days for a token budget, and what fits.\n"
      "An inference plan (--inference, or --model FILE) predicts TTFT (time to first token: a prefill\n"
      "of all prompts) and TPOT (time per output token: one decode step of every sequence). Prefill is\n"
      "compute-bound (see MFU) and decode is memory-bound (see MBU), so a larger decode batch costs\n"
      "little extra time until the KV cache is as large as the weights. ridge infer-lab prints the same\n"
      "predictions next to its measurements. An inference plan refuses the options of a training plan\n"
      "(--micro-batches, --recompute, --tokens, --devices, --dtype and others); on a GPU it uses bf16, or fp32\n"
      "with --exact.\n\n"
      "--hardware FILE reads what `ridge machine --json` prints, or a data sheet (dense rates in 1e12\n"
      "per second; name, peaks.f32, memory_tera_bytes and memory_bytes are required):\n"
      "  {\"name\": \"my-gpu\", \"peaks\": {\"f32\": 19.5, \"bf16\": 312}, \"tf32_tera_flops\": 156,\n"
      "   \"vector_tera_flops\": 19.5, \"memory_tera_bytes\": 2.0, \"memory_bytes\": 80000000000,\n"
      "   \"cache_bytes\": 40000000, \"interconnect_giga_bytes\": 600, \"board_watts\": 400}\n\n"
      "Examples:\n"
      "  ridge plan --preset small\n"
      "  ridge plan --preset large --hardware h100 --dtype bf16 --tokens 20e9\n"
      "  ridge plan --parameters 70e9 --tokens 15e12 --devices 1024 --hardware h100 --mfu 0.5 --price 2.5\n"
      "  ridge plan --config llama-2-7b --dtype bf16 --devices 8 --recompute block --hardware a100,h100,mi300x\n"
      "  ridge plan --preset small --freeze '*embed_tokens*'\n"
      "  ridge plan --config config.json --hardware my_machine.json --batch-size 4 --json\n"
      "  ridge plan --inference --config Llama-2-7B/config.json --hardware h200 --seq-len 2048\n"
      "  ridge plan --model SmolLM2-135M-Instruct.Q4_1.gguf");
  app.callback([options, app, &context] { run(*options, app, context.terminal); });
}

}  // namespace ridge::apps
