// SPDX-License-Identifier: Apache-2.0
// Declares the shared options and turns them into choices. Not a subcommand.
#include "apps/model_options.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <utility>

#include "apps/tuning_files.h"
#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/isa.h"
#include "backends/cuda/cuda_backend.h"
#include "backends/tuning_file.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/printable.h"
#include "base/split.h"
#include "base/units.h"
#include "models/config_json.h"
#include "models/known_shapes.h"
#include "planning/step_plan.h"
#include "report/terminal.h"

namespace ridge::apps {
namespace {

constexpr int64_t kMostSteps = 1'000'000'000;  // at a millisecond each, eleven days
constexpr int64_t kMostMicroBatches = 65536;   // more would take hours per step
constexpr int kMostThreads = 1024;             // more must be a typing error
constexpr const char* kModel = "Model";
constexpr const char* kLevel = "Level";
constexpr const char* kMachine = "Machine";

std::string level_names() {
  std::string names;
  for (const passes::Level& level : passes::levels())
    names += (names.empty() ? "" : ", ") + std::string(level.name);
  return names;
}

// The path of the file, in a folder that exists; empty if there is no such folder. A file that cannot be used is replaced after
// a warning.
std::string tuning_file(const char* file) {
  const std::string path = tuning_path(file);
  if (path.empty()) return "";
  std::error_code error;  // without the folder nothing is cached, and the next run tunes again
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  if (const std::string fault = backends::tuning_fault(path); !fault.empty())
    fmt::print(stderr, "warning: {}; GEMMs are measured again\n", terminal_safe(fault));
  return path;
}

// The name of a configuration: that of its folder if the file is called config.json, as most are.
std::string file_title(const std::filesystem::path& path) {
  std::filesystem::path full = std::filesystem::absolute(path).lexically_normal();
  if (!full.has_filename()) full = full.parent_path();
  if (full.filename() == "config.json" && full.parent_path().has_filename())
    full = full.parent_path();
  return full.filename().string();
}

}  // namespace

void add_model_options(Command app, ModelOptions& options) {
  app = app.under(kModel);
  Option preset =
      app.add_option("--preset", options.preset,
                     "size of a model with random weights: tiny (2.6 M parameters), small (32 M), "
                     "medium (190 M) or large (1.0 B)")
          .show_default();
  app.add_option("--config", options.config_file,
                 "instead of a preset, a config.json with Hugging Face's key names or a published "
                 "shape: gemma3-270m, gemma3-1b, llama-2-7b, llama-2-70b, llama-3-8b, smollm2-135m")
      .excludes(preset);
}

void add_model_file_option(Command app, ModelOptions& options) {
  app.under(kModel).add_option(
      "--model", options.model_file,
      "start from the weights of this model: a .gguf file, or a folder with config.json and "
      "safetensors");
}

ModelChoice choose_model(const ModelOptions& options) {
  // Files have no training settings: use the presets' batch size, and a length of at most the
  // model's context.
  constexpr int64_t kBatch = 8, kLongest = 512;
  auto choice = [&](const std::string& path, const models::ModelConfig& config) -> ModelChoice {
    const int64_t sequence = config.context > 0 ? std::min(config.context, kLongest) : kLongest;
    return {file_title(path), config, kBatch, sequence};
  };
  std::error_code error;
  const models::ModelConfig* known = models::find_known_shape(options.config_file);
  if (known != nullptr && !std::filesystem::exists(options.config_file, error)) {
    ModelChoice made = choice(known->name, *known);
    made.name = known->name;
    return made;
  }
  if (!options.config_file.empty())
    return choice(options.config_file, models::load_config(options.config_file));
  if (!options.model_file.empty()) {
    auto file =
        std::make_shared<const models::ModelFile>(models::ModelFile::open(options.model_file));
    ModelChoice made = choice(options.model_file, models::folder_form(file->config()));
    made.file = std::move(file);
    return made;
  }
  const models::Preset& preset = models::preset(options.preset);
  return {preset.config.name, preset.config, preset.batch_size, preset.sequence};
}

void expect_context(const ModelOptions& options,
                    const ModelChoice& model,
                    const char* option,
                    int64_t sequence) {
  if (!options.is_preset() && sequence > model.config.context)
    throw usage_error("[{}] expected at most {} tokens, the context of {}, got {}", option,
                      model.config.context, printable(model.name), sequence);
}

void add_level_option(Command app, LevelOptions& options) {
  app.under(kLevel)
      .add_option(
          "--level", options.level,
          "optimizations of the graph, each level with those before: baseline (none), fused "
          "(merged projections, flash attention), kernels (hand-written ones) or compiled "
          "(generated kernels, tuned GEMMs; the fastest)")
      .show_default();
}

void add_pass_option(Command app, LevelOptions& options) {
  app.under(kLevel).add_option("--pass", options.switches,
                               "turn passes and options on or off: +NAME,-NAME; +recompute=4 "
                               "recomputes only the first 4 layers (see ridge explain --passes)");
}

void add_switch_options(Command app, LevelOptions& options) {
  add_pass_option(app, options);
  app = app.under(kLevel);
  Option dtype =
      app.add_option("--dtype", options.dtype,
                     "type of GEMMs and activations: fp32 (the most exact), tf32 (a GPU "
                     "rounds the fp32 inputs of GEMMs to TF32), bf16 (half the memory, the "
                     "fastest where the device has it; fp32 master weights) or, to train on "
                     "a CPU, fp16 (with loss scaling too)")
          .show_default();
  app.add_flag("--tf32", options.tf32, "short for --dtype tf32").excludes(dtype);
}

std::string switch_text(const LevelOptions& options) {
  const std::string dtype = options.tf32 ? "tf32" : options.dtype;
  if (dtype == "fp32" || dtype == "f32") return options.switches;
  const char* switched = dtype == "bf16"                     ? "+autocast_bf16"
                         : dtype == "fp16" || dtype == "f16" ? "+autocast_f16"
                         : dtype == "tf32"                   ? "+tf32"
                                                             : nullptr;
  if (switched == nullptr)
    throw usage_error("[dtype] expected fp32, tf32, bf16 or fp16, got {}", printable(dtype));
  return options.switches + (options.switches.empty() ? "" : ",") + switched;
}

void add_machine_options(Command app, MachineOptions& options) {
  app = app.under(kMachine);
  app.add_option("--device", options.device, "cpu or cuda (default: cuda if there is a GPU)");
  app.add_option("--threads", options.threads,
                 "CPU threads (default: one for each processor that Ridge may use)");
  app.add_option("--isa", options.isa,
                 "highest instruction set that kernels may use: avx2, avx512 or amx (default: the "
                 "CPU's highest)");
}

void add_nvtx_option(Command app, MachineOptions& options) {
  app.under(kMachine).add_flag("--nvtx", options.nvtx,
                               "mark launches with NVTX ranges named after their scopes, for "
                               "Nsight Systems (with CUDA graphs: during capture)");
}

std::string chosen_device(const MachineOptions& options) {
  if (options.device.empty()) return backends::cuda::why_no_gpu().empty() ? "cuda" : "cpu";
  if (options.device != "cpu" && options.device != "cuda")
    throw usage_error("[device] expected cpu or cuda, got {}", printable(options.device));
  return options.device;
}

std::unique_ptr<backends::Backend> make_backend(const MachineOptions& options,
                                                const passes::Selection& selection) {
  if (options.threads < 0 || options.threads > kMostThreads)
    throw usage_error("[threads] expected a number from 1 to {} (or 0: all), got {}", kMostThreads,
                      options.threads);
  const bool on_gpu = chosen_device(options) == "cuda";
  if (!on_gpu && selection.has("tf32"))
    throw usage_error("[dtype] expected fp32, bf16 or fp16 on a CPU, got tf32, which needs a GPU");
  if (!on_gpu && options.threads > omp_get_num_procs())
    fmt::print(stderr, "warning: {} threads will share {} cores\n", options.threads,
               omp_get_num_procs());
  if (on_gpu && (options.threads != 0 || !options.isa.empty()))
    throw usage_error("[{0}] --{0} has no effect on a GPU; choose the CPU with --device cpu",
                      options.threads != 0 ? "threads" : "isa");
  if (options.nvtx && !on_gpu) throw usage_error("[nvtx] expected --device cuda, got cpu");
  const bool tunes = selection.has("tune_gemm");
  const std::string choices =
      tunes ? tuning_file(on_gpu ? "gemm-tuning-cuda.json" : "gemm-tuning.json") : "";
  if (on_gpu)
    return backends::cuda::make_cuda_backend({selection.has("tf32"), selection.has("capture"),
                                              selection.has("branches"), tunes, choices,
                                              options.nvtx});
  return backends::cpu::make_cpu_backend({options.threads, options.isa, tunes, choices});
}

void expect_effect(const std::string& switches,
                   passes::Serves serves,
                   const passes::PassTarget& target) {
  passes::expect_effect(switches, serves, target.passes(), target.name() != "cpu");
}

record::Setting make_setting(const std::string& model,
                             const MachineOptions& machine,
                             const passes::Selection& selection,
                             const std::string& switches) {
  record::Setting setting;
  setting.model = model;
  setting.level = selection.level();
  setting.switches = switches;
  setting.dtype = selection.gemm_dtype();
  setting.device = chosen_device(machine);
  bool on_gpu = setting.device == "cuda";
  setting.isa = on_gpu ? backends::cuda::gpu_architecture() : backends::cpu::isa_name();
  setting.threads = on_gpu ? 1 : omp_get_max_threads();
  return setting;
}

void expect_steps(int64_t steps, int64_t least, int64_t warmup) {
  if (steps < least || steps > kMostSteps)
    throw usage_error("[steps] expected {} to {}{}, got {}", least, kMostSteps,
                      least > 1 ? " (one plain, one instrumented)" : "", steps);
  if (warmup < 0 || warmup > kMostSteps)
    throw usage_error("[warmup] expected 0 to {}, got {}", kMostSteps, warmup);
}

std::vector<int64_t> parse_sizes(const std::string& text, const char* option) {
  std::vector<int64_t> sizes;
  for (const std::string& item : split(text)) {
    int64_t size = 0;
    auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), size);
    if (error != std::errc() || end != item.data() + item.size() || size < 1)
      throw usage_error("[{}] expected numbers >= 1, separated by commas, got {}", option,
                        printable(text));
    sizes.push_back(size);
  }
  return sizes;
}

std::vector<std::string> parse_levels(const std::string& text, const char* option) {
  std::vector<std::string> names;
  if (text == "all") {
    for (const passes::Level& level : passes::levels()) names.emplace_back(level.name);
    return names;
  }
  for (const std::string& item : split(text)) {
    bool is_known = false;
    for (const passes::Level& level : passes::levels()) is_known = is_known || level.name == item;
    if (!is_known)
      throw usage_error("[{}] expected all or some of {}, got {}", option, level_names(),
                        printable(item));
    names.push_back(item);
  }
  return names;
}

void add_training_options(Command app, TrainingOptions& o) {
  add_model_options(app, o.model);
  add_level_option(app, o.level);
  add_switch_options(app, o.level);
  add_machine_options(app, o.machine);
  app.add_option("--batch-size", o.batch_size,
                 "sequences in a micro-batch (default: the preset's; 8 of a configuration)");
  app.add_option("--seq-len", o.sequence,
                 "tokens in a sequence (default: the preset's; at most 512 of a configuration)");
}

void add_clip_option(Command app, double& clip_norm) {
  app.add_option("--clip", clip_norm,
                 "largest norm of the gradients; a larger one is scaled down (0: no clipping)")
      .show_default();
}

void expect_clip(double clip_norm) {
  if (!std::isfinite(clip_norm) || clip_norm < 0)
    throw usage_error("[clip] expected a number >= 0, got {}", clip_norm);
}

void add_micro_batch_option(Command app, TrainingOptions& o) {
  app.add_option("--micro-batches", o.micro_batches,
                 "micro-batches in a step, whose gradients are summed (gradient accumulation)")
      .show_default();
}

void add_tuning_options(Command app, TrainingOptions& o) {
  app = app.under(kModel);
  app.add_option(
      "--freeze", o.freeze,
      "train all but the parameters that match: PATTERN[,PATTERN], in which * stands for "
      "any characters (*embed_tokens*,*norm*); default: train all");
  app.add_option(
         "--lora-rank", o.lora.rank,
         "rank of adapters (with --pass +lora); a higher one learns more and needs more memory")
      .show_default();
  app.add_option("--lora-alpha", o.lora.alpha,
                 "strength of adapters: their output is multiplied by alpha / rank")
      .show_default();
  app.add_option("--lora-targets", o.lora_targets,
                 "the projections that get an adapter: q_proj, k_proj, v_proj, o_proj, gate_proj, "
                 "up_proj, down_proj or lm_head")
      .show_default();
}

namespace {

passes::LoraOptions lora_of(const TrainingOptions& o) {
  constexpr int64_t kMostRank = 65536;
  passes::LoraOptions lora = o.lora;
  lora.targets = split(o.lora_targets);
  if (lora.rank < 1 || lora.rank > kMostRank)
    throw usage_error("[lora-rank] expected 1 to {}, got {}", kMostRank, lora.rank);
  if (!std::isfinite(lora.alpha) || lora.alpha <= 0)
    throw usage_error("[lora-alpha] expected a number above 0, got {}", lora.alpha);
  return lora;
}

}  // namespace

TrainingChoice::TrainingChoice(const TrainingOptions& o, const Command& app)
    : model(choose_model(o.model)),
      switches(switch_text(o.level)),
      selection(o.level.level, switches) {
  step.batch_size = o.batch_size.value_or(model.batch_size);
  step.sequence = o.sequence.value_or(model.sequence);
  for (const auto& [option, size] :
       {std::pair("batch-size", step.batch_size), std::pair("seq-len", step.sequence)})
    if (size < 1) throw usage_error("[{}] expected at least 1, got {}", option, size);
  expect_context(o.model, model, "seq-len", step.sequence);
  if (o.micro_batches < 1 || o.micro_batches > kMostMicroBatches)
    throw usage_error("[micro-batches] expected 1 to {}, got {}", kMostMicroBatches,
                      o.micro_batches);
  step.micro_batches = o.micro_batches;
  if (!o.freeze.empty()) step.frozen = split(o.freeze);
  step.lora = lora_of(o);
  step.base_model = o.model.model_file;
  app.refuse_unused({{!selection.has("lora"),
                      "without --pass +lora",
                      {"--lora-rank", "--lora-alpha", "--lora-targets"}},
                     {selection.has("lora"), "with --pass +lora", {"--freeze"}}});
}

measure::TrainingExperiment make_experiment(const ModelChoice& model,
                                            const MachineOptions& machine,
                                            const passes::Selection& selection,
                                            const std::string& switches) {
  measure::TrainingExperiment e;
  e.setting = make_setting(model.name, machine, selection, switches);
  e.config = model.config;
  e.step.batch_size = model.batch_size;
  e.step.sequence = model.sequence;
  e.selection = selection;
  return e;
}

measure::TrainingExperiment make_experiment(const TrainingChoice& choice,
                                            const MachineOptions& machine) {
  measure::TrainingExperiment e =
      make_experiment(choice.model, machine, choice.selection, choice.switches);
  e.step = choice.step;
  return e;
}

int64_t expect_fits(const measure::TrainingExperiment& e, const backends::Backend& backend) {
  const int64_t bytes = planning::expect_step_fits(e, backend);
  if (e.data == nullptr)
    train::SyntheticData(e.config.vocabulary, e.step.sequence, train::kSyntheticSeed)
        .next(e.step.batch_size);
  return bytes;
}

}  // namespace ridge::apps
