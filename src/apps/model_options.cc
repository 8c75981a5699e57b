// SPDX-License-Identifier: Apache-2.0
// Declarations of the shared options and what they choose. Not a subcommand.
#include "apps/model_options.h"

#include <omp.h>

#include <charconv>
#include <ctime>

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/isa.h"
#include "base/error.h"
#include "base/printable.h"

namespace ridge::apps {
namespace {

constexpr int kMostThreads = 1024;  // more would only be a typing error
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

}  // namespace

void add_model_options(CLI::App& app, ModelOptions& options) {
  CLI::Option* preset = app.add_option("--preset", options.preset, "tiny, small, medium or large")
                            ->capture_default_str();
  preset->group(kModelGroup);
  app.add_option("--config", options.config_file,
                 "a config.json with Hugging Face's key names, instead of a preset")
      ->excludes(preset)
      ->group(kModelGroup);
}

ModelChoice choose_model(const ModelOptions& options) {
  if (!options.config_file.empty())
    throw usage_error("[config] reading configuration files is not in this build yet");
  const models::Preset& preset = models::preset(options.preset);
  return {preset.config.name, preset.config, preset.batch_size, preset.sequence};
}

void add_level_options(CLI::App& app, LevelOptions& options) {
  app.add_option("--level", options.level, level_names())
      ->capture_default_str()
      ->group(kLevelGroup);
  add_switch_options(app, options);
}

void add_switch_options(CLI::App& app, LevelOptions& options) {
  app.add_option("--pass", options.switches,
                 "passes switched on or off: +recompute,-fuse_glu (ridge explain lists them)")
      ->group(kLevelGroup);
  app.add_option("--dtype", options.dtype,
                 "type of products and activations: fp32 or bf16 (fp32 masters)")
      ->capture_default_str()
      ->group(kLevelGroup);
}

std::string switch_text(const LevelOptions& options) {
  if (options.dtype == "fp32" || options.dtype == "f32") return options.switches;
  if (options.dtype != "bf16")
    throw usage_error("[dtype] expected fp32 or bf16, got {}", printable(options.dtype));
  return options.switches + (options.switches.empty() ? "" : ",") + "+autocast_bf16";
}

void add_machine_options(CLI::App& app, MachineOptions& options) {
  app.add_option("--threads", options.threads, "CPU threads (default: all)")->group(kMachineGroup);
  app.add_option("--isa", options.isa,
                 "highest instruction set that kernels use: avx2, avx512 or amx")
      ->group(kMachineGroup);
}

std::unique_ptr<backends::Backend> make_backend(const MachineOptions& options,
                                                const passes::Selection& selection) {
  if (options.threads < 0 || options.threads > kMostThreads)
    throw usage_error("[threads] expected a number from 1 to {} (or 0: all), got {}", kMostThreads,
                      options.threads);
  return backends::cpu::make_cpu_backend(
      {options.threads, options.isa, selection.has("tune_gemm")});
}

perf::Setting make_setting(const std::string& model,
                           const passes::Selection& selection,
                           const std::string& switches) {
  perf::Setting setting;
  setting.model = model;
  setting.level = selection.level();
  setting.switches = switches;
  setting.dtype = selection.has("autocast_bf16") ? "bf16" : "f32";
  setting.device = "cpu";
  setting.isa = backends::cpu::isa_name();
  setting.threads = omp_get_max_threads();
  return setting;
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

std::string utc_now() {
  std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char text[sizeof "2000-01-01T00:00:00Z"];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

}  // namespace ridge::apps
