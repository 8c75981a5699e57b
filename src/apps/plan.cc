// SPDX-License-Identifier: Apache-2.0
// ridge plan: predicts the memory and time of a training run from the graph and a machine's
// ceilings. Runs nothing. plan_inference.cc plans inference.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "apps/model_options.h"
#include "apps/plan_inference.h"
#include "apps/plan_place.h"
#include "apps/subcommand.h"
#include "base/error.h"
#include "base/units.h"
#include "cost/hardware.h"
#include "cost/resource_plan.h"
#include "measure/training_run.h"
#include "ops/registry.h"
#include "report/json_text.h"

namespace ridge::apps {
namespace {

constexpr double kMostTokens = 1e18;
constexpr int64_t kMostDevices = 10'000'000;
constexpr int64_t kLargestBatch = int64_t{1} << 20;

struct PlanOptions {
  TrainingOptions training;
  std::string hardware = "this";
  double tokens = 1e9;
  double assumed_mfu = 0.4;
  int64_t devices = 1;
  double clip_norm = 0;
  bool json = false;
  bool verbose = false;
  InferencePlanOptions inference;
};

struct Plan {
  record::RunRecord record;
  DType dtype = DType::kF32;
  cost::ReferenceRate peak;  // GEMMs in `dtype`
  double days = 0;           // for the token budget at the predicted rate
  double assumed_days = 0;   // at the assumed MFU
  bool fits = true;          // the hardware's memory is unknown or holds the step
  int64_t largest_batch = 0;
  cost::BytesPerParameter bytes_per_parameter;
  int64_t largest_model = 0;

  double flops_per_token() const {
    return static_cast<double>(record.palm_flops()) / static_cast<double>(record.setting.tokens());
  }
  double mfu() const { return record.mfu(peak); }
  double peak_flops_per_s() const { return 1e9 * peak.per_ns; }
};

void expect_sane(const PlanOptions& o) {
  if (!(o.tokens >= 1 && o.tokens <= kMostTokens))
    throw usage_error("[tokens] expected 1 to {:g}, got {:g}", kMostTokens, o.tokens);
  if (!(o.assumed_mfu > 0 && o.assumed_mfu <= 1))
    throw usage_error("[mfu] expected a share in (0, 1], got {:g}", o.assumed_mfu);
  if (o.devices < 1 || o.devices > kMostDevices)
    throw usage_error("[devices] expected 1 to {}, got {}", kMostDevices, o.devices);
  expect_clip(o.clip_norm);
}

// Bytes that this step takes per parameter, without activations.
cost::BytesPerParameter bytes_per_parameter(const record::RunRecord& record) {
  auto bytes = [&](plan::MemoryClass each) {
    return static_cast<double>(record.memory.class_peaks().bytes[static_cast<size_t>(each)]) /
           static_cast<double>(std::max<int64_t>(record.parameters, 1));
  };
  return {bytes(plan::MemoryClass::kParameters), bytes(plan::MemoryClass::kGradients),
          bytes(plan::MemoryClass::kOptimizerState)};
}

class Planner {
 public:
  Planner(measure::TrainingExperiment experiment, const Place& place)
      : experiment_(std::move(experiment)), place_(place) {}

  Plan plan(const PlanOptions& o, const TerminalOptions& terminal) const {
    Plan plan;
    plan.record = record(experiment_.step.batch_size, &place_.ceilings);
    plan.dtype = record::product_dtype(plan.record.setting);
    plan.peak = place_.ceilings.mfu_reference(plan.dtype);
    plan.fits = place_.memory_bytes <= 0 || plan.record.memory.owned_bytes <= place_.memory_bytes;
    double devices = static_cast<double>(o.devices);
    plan.days = cost::training_days(plan.flops_per_token(), o.tokens, devices,
                                    plan.peak_flops_per_s(), plan.mfu());
    plan.assumed_days = cost::training_days(plan.flops_per_token(), o.tokens, devices,
                                            plan.peak_flops_per_s(), o.assumed_mfu);
    Progress progress("largest batch", 0, "batch sizes", terminal);
    plan.largest_batch =
        cost::largest_fitting(place_.memory_bytes, kLargestBatch, [&](int64_t batch) {
          progress.tick(1, fmt::format("{} sequences", batch));
          return record(batch, nullptr).memory.owned_bytes;
        });
    plan.bytes_per_parameter = bytes_per_parameter(plan.record);
    plan.largest_model = cost::largest_model(place_.memory_bytes, plan.bytes_per_parameter);
    return plan;
  }

 private:
  record::RunRecord record(int64_t batch, const cost::Ceilings* ceilings) const {
    measure::TrainingExperiment e = experiment_;
    e.step.batch_size = batch;
    train::TrainingStep graphs =
        train::build_step(e.config, e.step, e.selection, ops::table(), *place_.planned);
    return measure::planned_training(e, graphs, *place_.planned, ceilings);
  }

  measure::TrainingExperiment experiment_;
  const Place& place_;
};

nlohmann::ordered_json memory_json(const record::MemoryRecord& memory) {
  return {{"owned_bytes", memory.owned_bytes},
          {"arena_bytes", memory.arena_bytes},
          {"live_peak_bytes", memory.live_peak_bytes},
          {"class_peak_bytes", report::memory_classes_json(memory.class_peaks().bytes)}};
}

void print_json(const PlanOptions& o, const Place& place, const Plan& plan) {
  const record::RunRecord& r = plan.record;
  Work model = r.model.step();
  nlohmann::ordered_json json{
      {"model", r.setting.model},
      {"parameters", r.parameters},
      {"level", r.setting.level},
      {"dtype", r.setting.dtype},
      {"batch_size", r.setting.batch_size},
      {"sequence", r.setting.sequence},
      {"micro_batches", r.setting.micro_batches},
      {"clip", o.clip_norm},
      {"hardware", place.title},
      {"hardware_source", place.source},
      {"assumptions", place.ceilings.notes},
      {"model_flops", model.flops},
      {"model_macs", model.macs},
      {"executed_flops", r.executed.flops},
      {"planned_bytes", r.planned_bytes},
      {"compulsory_bytes", r.compulsory_bytes},
      {"kernel_calls", r.launches},
      {"memory", memory_json(r.memory)},
      {"memory_capacity_bytes", place.memory_bytes},
      {"fits", plan.fits},
      {"predicted_step_ns", r.predicted_ns},
      {"predicted_tokens_per_s", plan.record.tokens_per_s()},
      {"predicted_mfu", plan.mfu()},
      {"mfu_convention", record::kMfuConvention},
      {"mfu_peak", report::to_json(plan.peak)},
      {"tokens", o.tokens},
      {"devices", o.devices},
      {"predicted_days", plan.fits ? nlohmann::ordered_json(plan.days) : nlohmann::ordered_json()},
      {"assumed_mfu", o.assumed_mfu},
      {"assumed_mfu_days",
       plan.fits ? nlohmann::ordered_json(plan.assumed_days) : nlohmann::ordered_json()},
      {"largest_batch_size", plan.largest_batch},
      {"bytes_per_parameter", plan.bytes_per_parameter.total()},
      {"largest_model_parameters", plan.largest_model}};
  fmt::print("{}", report::json_text(json));
}

std::string days(double value) {
  constexpr double kHours = 24;
  if (value >= 1) return fmt::format("{:.1f} days", value);
  return value * kHours >= 1 ? fmt::format("{:.1f} hours", value * kHours)
                             : fmt::format("{:.1f} minutes", value * kHours * 60);
}

void print_memory(const Place& place, const Plan& plan, const TerminalOptions& terminal) {
  const record::MemoryRecord& memory = plan.record.memory;
  plan::MemoryMoment peaks = memory.class_peaks();
  Table table({{"memory", Align::kLeft}, {"peak"}});
  for (int i = 0; i < plan::kMemoryClasses; ++i)
    if (peaks.bytes[i] > 0)
      table.add(
          {std::string(name(static_cast<plan::MemoryClass>(i))), format_bytes(peaks.bytes[i])});
  table.add_rule();
  table.add({"owned (store and arena)", format_bytes(memory.owned_bytes)});
  table.add({"memory of the hardware", format_bytes(place.memory_bytes)});
  fmt::print("{}\n", table.text(terminal));
}

void print_text(const PlanOptions& o,
                const Place& place,
                const Plan& plan,
                const TerminalOptions& terminal) {
  const record::RunRecord& r = plan.record;
  Work model = r.model.step();
  auto flops = [](int64_t count) { return format_count(static_cast<double>(count)); };
  std::string heading =
      fmt::format("{}, {} parameters, on {}\nsource: {}\n", terminal_safe(r.setting.str()),
                  format_integer(r.parameters), terminal_safe(place.title),
                  terminal_safe(place.source, kLongestMessage));
  if (o.verbose)
    for (const std::string& note : place.ceilings.notes)
      heading += terminal_safe(note, kLongestMessage) + "\n";
  if (!plan.fits)
    heading += fmt::format("DOES NOT FIT: the step owns {}, the hardware has {}\n",
                           format_bytes(r.memory.owned_bytes), format_bytes(place.memory_bytes));
  fmt::print("{}\n", wrap_lines(heading, terminal.columns));
  Table table({{"per step", Align::kLeft}, {""}, {"what it counts", Align::kLeft, 1}});
  table.add({"model FLOPs", flops(model.flops), "forward and backward, the same for all kernels"});
  table.add({"  in GEMMs", flops(2 * model.macs), "2 FLOPs per MAC"});
  table.add({"executed FLOPs", flops(r.executed.flops),
             "with optimizer, recomputation; no masked tiles"});
  table.add({"planned bytes", format_bytes(r.planned_bytes), "each operand of each kernel once"});
  table.add(
      {"compulsory bytes", format_bytes(r.compulsory_bytes), "as if the step were one kernel"});
  table.add({"kernel calls", format_integer(r.launches), ""});
  table.add({"predicted time", format_ns(r.predicted_ns), ""});
  table.add({"  tokens/s", format_count(plan.record.tokens_per_s()), ""});
  table.add({"predicted MFU", fmt::format("{:.1f}%", 100 * plan.mfu()), ""});
  fmt::print("{}{}\n", table.text(terminal),
             wrap_lines("MFU: " + plan.peak.str("FLOP/s", r.setting.dtype), terminal.columns));
  print_memory(place, plan, terminal);
  std::string answers;
  if (plan.fits)
    answers = fmt::format("{} tokens on {} {}: {} as predicted; {} at an assumed MFU of {:.0f}%\n",
                          format_count(o.tokens), o.devices, o.devices == 1 ? "device" : "devices",
                          days(plan.days), days(plan.assumed_days), 100 * o.assumed_mfu);
  answers += fmt::format("largest batch that fits: {}{} sequences of {}\n",
                         plan.largest_batch == kLargestBatch ? "at least " : "", plan.largest_batch,
                         r.setting.sequence);
  answers += fmt::format(
      "largest model that fits: {} parameters at {:.1f} bytes each (weights {:.1f}, gradients "
      "{:.1f}, moments {:.1f}; activations not counted)\n",
      format_count(static_cast<double>(plan.largest_model)), plan.bytes_per_parameter.total(),
      plan.bytes_per_parameter.weights, plan.bytes_per_parameter.gradients,
      plan.bytes_per_parameter.moments);
  fmt::print("{}", wrap_lines(answers, terminal.columns));
}

void run(const PlanOptions& o, const Command& app, const TerminalOptions& terminal) {
  app.refuse_unused(
      {{is_asked(o.inference),
        "in a plan of inference",
        {"--micro-batches", "--freeze", "--lora-rank", "--lora-alpha", "--lora-targets", "--clip",
         "--tokens", "--mfu", "--devices", "--dtype", "--tf32"}},
       {!is_asked(o.inference),
        "without --inference or --model",
        {"--chunk", "--exact", "--cache-dtype"}},
       {o.hardware != "this", "with --hardware", {"--device", "--threads", "--isa"}}});
  if (is_asked(o.inference)) {
    if (!o.inference.model.empty() && (app.given("--preset") || app.given("--config")))
      throw usage_error("[model] expected one of --model, --preset and --config, got two");
    const TrainingOptions& t = o.training;
    plan_inference(
        {t.model, t.level, t.machine, o.hardware, t.batch_size, t.sequence, o.json, o.verbose},
        o.inference, terminal);
    return;
  }
  expect_sane(o);
  const TrainingChoice choice(o.training, app);
  Place place = choose_place(o.hardware, o.training.machine, choice.selection, terminal);
  expect_effect(choice.switches, passes::Serves::kTraining, *place.planned);
  measure::TrainingExperiment experiment = make_experiment(choice, o.training.machine);
  experiment.setting.device = place.target;
  experiment.step.optimizer.clip_norm = o.clip_norm;
  Plan plan = Planner(std::move(experiment), place).plan(o, terminal);
  if (o.json)
    print_json(o, place, plan);
  else
    print_text(o, place, plan, terminal);
}

}  // namespace

void register_plan(Command program, const AppContext& context) {
  auto options = std::make_shared<PlanOptions>();
  Command app = program.add_subcommand(
      "plan", "Predict time and memory of training or inference without a run");
  add_training_options(app, options->training);
  add_micro_batch_option(app, options->training);
  add_tuning_options(app, options->training);
  add_clip_option(app, options->clip_norm);
  app.add_option("--hardware", options->hardware,
                 "this, " + cost::hardware_names() + ", or a JSON file (see below)")
      .show_default();
  app.add_option("--tokens", options->tokens, "token budget").show_default();
  app.add_option("--mfu", options->assumed_mfu, "assumed MFU for a second estimate of the days")
      .show_default();
  app.add_option("--devices", options->devices, "number of devices, assumed to scale perfectly")
      .show_default();
  app.add_verbose_flag(options->verbose).excludes(app.add_json_flag(options->json));
  add_inference_plan_options(app, options->inference);
  app.footer(
      "A training plan predicts the time of a step, the days for a token budget, and what fits.\n"
      "An inference plan (--inference, or --model FILE) predicts TTFT (time to first token: a prefill\n"
      "of all prompts) and TPOT (time per output token: one decode step of every sequence). Prefill is\n"
      "compute-bound (see MFU) and decode is memory-bound (see MBU), so a larger decode batch costs\n"
      "little extra time until the KV cache is as large as the weights. ridge infer-lab prints the same\n"
      "predictions next to its measurements. An inference plan refuses the options of a training plan\n"
      "(--micro-batches, --freeze, --lora-rank, --clip, --tokens, --mfu, --devices, --dtype); on a GPU it uses\n"
      "bf16, or fp32 with --exact.\n\n"
      "--hardware FILE reads what `ridge machine --json` prints, or a data sheet (dense rates in 1e12\n"
      "per second; name, peaks.f32, memory_tera_bytes and memory_bytes are required):\n"
      "  {\"name\": \"my-gpu\", \"peaks\": {\"f32\": 19.5, \"bf16\": 312}, \"tf32_tera_flops\": 156,\n"
      "   \"vector_tera_flops\": 19.5, \"memory_tera_bytes\": 2.0, \"memory_bytes\": 80000000000,\n"
      "   \"cache_bytes\": 40000000}\n\n"
      "Examples:\n"
      "  ridge plan --preset small\n"
      "  ridge plan --preset large --hardware h100 --dtype bf16 --tokens 20e9\n"
      "  ridge plan --preset small --freeze '*embed_tokens*'\n"
      "  ridge plan --config config.json --hardware my_machine.json --batch-size 4 --json\n"
      "  ridge plan --inference --config Llama-2-7B/config.json --hardware h200 --seq-len 2048\n"
      "  ridge plan --model SmolLM2-135M-Instruct.Q4_1.gguf");
  app.callback([options, app, &context] { run(*options, app, context.terminal); });
}

}  // namespace ridge::apps
