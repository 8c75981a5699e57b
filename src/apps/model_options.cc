// SPDX-License-Identifier: Apache-2.0
// Declarations of the shared options and what they choose. Not a subcommand.
#include "apps/model_options.h"

#include <omp.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "apps/environment.h"
#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/isa.h"
#include "backends/cuda/cuda_backend.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/printable.h"
#include "base/units.h"
#include "models/config_json.h"
#include "ops/registry.h"
#include "report/tables.h"

namespace ridge::apps {
namespace {

constexpr int64_t kMostSteps = 1'000'000'000;  // at a millisecond each, eleven days
constexpr int kMostThreads = 1024;             // more would only be a typing error
constexpr const char* kModelGroup = "Model";
constexpr const char* kLevelGroup = "Level";
constexpr const char* kMachineGroup = "Machine";

std::string level_names() {
  std::string names;
  for (const passes::Level& level : passes::levels())
    names += (names.empty() ? "" : ", ") + std::string(level.name);
  return names;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> items;
  for (size_t at = 0; at <= text.size();) {
    size_t comma = std::min(text.find(',', at), text.size());
    items.push_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  return items;
}

// In the cache folder; empty where there is none.
std::string tuning_file(const char* file) {
  std::filesystem::path folder = cache_folder();
  if (folder.empty()) return "";
  std::error_code error;  // without the folder nothing is kept; that costs time, not the run
  std::filesystem::create_directories(folder, error);
  return folder / file;
}

// What a configuration is called: its folder, for files are all named config.json.
std::string file_title(const std::filesystem::path& path) {
  std::filesystem::path full = std::filesystem::absolute(path).lexically_normal();
  if (!full.has_filename()) full = full.parent_path();
  if (full.filename() == "config.json" && full.parent_path().has_filename())
    full = full.parent_path();
  return full.filename().string();
}

}  // namespace

void add_model_options(Command app, ModelOptions& options) {
  Option preset =
      app.add_option("--preset", options.preset, "tiny, small, medium or large").show_default();
  preset.group(kModelGroup);
  app.add_option("--config", options.config_file,
                 "a config.json with Hugging Face's key names, instead of a preset")
      .excludes(preset)
      .group(kModelGroup);
}

ModelChoice choose_model(const ModelOptions& options) {
  if (!options.config_file.empty()) {
    models::ModelConfig config = models::load_config(options.config_file);
    // A file says nothing about training: the batch of the presets, and no more context than the
    // model was made for.
    constexpr int64_t kBatch = 8, kLongest = 512;
    int64_t sequence = config.context > 0 ? std::min(config.context, kLongest) : kLongest;
    return {file_title(options.config_file), config, kBatch, sequence};
  }
  const models::Preset& preset = models::preset(options.preset);
  return {preset.config.name, preset.config, preset.batch_size, preset.sequence};
}

void add_level_options(Command app, LevelOptions& options) {
  app.add_option("--level", options.level, level_names()).show_default().group(kLevelGroup);
  add_switch_options(app, options);
}

void add_switch_options(Command app, LevelOptions& options) {
  app.add_option("--pass", options.switches,
                 "passes switched on or off: +recompute,-fuse_glu (ridge explain lists them)")
      .group(kLevelGroup);
  Option dtype =
      app.add_option(
             "--dtype", options.dtype,
             "type of GEMMs and activations: fp32, tf32 (fp32 whose GEMM inputs a GPU rounds to "
             "TF32) or bf16 (fp32 masters)")
          .show_default()
          .group(kLevelGroup);
  app.add_flag("--tf32", options.tf32, "short for --dtype tf32").excludes(dtype).group(kLevelGroup);
}

std::string switch_text(const LevelOptions& options) {
  const std::string dtype = options.tf32 ? "tf32" : options.dtype;
  if (dtype == "fp32" || dtype == "f32") return options.switches;
  if (dtype != "bf16" && dtype != "tf32")
    throw usage_error("[dtype] expected fp32, tf32 or bf16, got {}", printable(dtype));
  return options.switches + (options.switches.empty() ? "" : ",") +
         (dtype == "bf16" ? "+autocast_bf16" : "+tf32");
}

void add_machine_options(Command app, MachineOptions& options) {
  app.add_option("--device", options.device, "cpu or cuda (default: cuda where a GPU is found)")
      .group(kMachineGroup);
  app.add_option("--threads", options.threads, "CPU threads (default: all)").group(kMachineGroup);
  app.add_option("--isa", options.isa,
                 "highest instruction set that kernels use: avx2, avx512 or amx")
      .group(kMachineGroup);
}

void add_nvtx_option(Command app, MachineOptions& options) {
  app.add_flag("--nvtx", options.nvtx,
               "on a GPU: NVTX ranges named for scopes around launches (around their recording "
               "where steps are replayed), for Nsight Systems")
      .group(kMachineGroup);
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
  if (!on_gpu && options.threads > omp_get_num_procs())
    fmt::print(stderr, "warning: {} threads share {} cores\n", options.threads,
               omp_get_num_procs());
  if (options.nvtx && !on_gpu) throw usage_error("[nvtx] expected --device cuda, got cpu");
  if (on_gpu)
    return backends::cuda::make_cuda_backend({selection.has("tf32"), selection.has("capture"),
                                              selection.has("branches"), selection.has("tune_gemm"),
                                              tuning_file("gemm-tuning-cuda.json"), options.nvtx});
  return backends::cpu::make_cpu_backend(
      {options.threads, options.isa, selection.has("tune_gemm"), tuning_file("gemm-tuning.json")});
}

record::Setting make_setting(const std::string& model,
                             const MachineOptions& machine,
                             const passes::Selection& selection,
                             const std::string& switches) {
  record::Setting setting;
  setting.model = model;
  setting.level = selection.level();
  setting.switches = switches;
  setting.dtype = selection.activations() == DType::kBF16 ? "bf16"
                  : selection.has("tf32")                 ? "tf32"
                                                          : "fp32";
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

int64_t chosen_size(const Command& app, const char* option, int64_t value, int64_t fallback) {
  if (!app.given(option)) return fallback;
  if (value < 1) throw usage_error("[{}] expected at least 1, got {}", option + 2, value);
  return value;
}

std::vector<int64_t> parse_sizes(const std::string& text, const char* option) {
  std::vector<int64_t> sizes;
  for (const std::string& item : split(text)) {
    int64_t size = 0;
    auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), size);
    if (error != std::errc() || end != item.data() + item.size() || size < 1)
      throw usage_error("[{}] expected numbers >= 1 with commas between, got {}", option,
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

int64_t expect_fits(const measure::TrainingExperiment& e, const backends::Backend& backend) {
  train::TrainingStep step =
      train::build_step(e.config, e.step, e.selection, ops::table(), backend);
  record::RunRecord planned = measure::planned_training(e, step, backend, nullptr);
  int64_t available = backend.available_bytes();
  if (available > 0 && planned.memory.owned_bytes > available)
    throw memory_error("[memory] {} needs {}, and {} are left on this {}\n\n{}",
                       planned.setting.str(), format_bytes(planned.memory.owned_bytes),
                       format_bytes(available), e.setting.device == "cuda" ? "GPU" : "machine",
                       report::memory_table(planned.memory).text({}));
  train::WorkshopData(e.config.vocabulary, e.step.sequence, train::kWorkshopSeed)
      .next(e.step.batch_size);
  return planned.memory.owned_bytes;
}

}  // namespace ridge::apps
