// SPDX-License-Identifier: Apache-2.0
// A published shape by its name, or what a path names.
#include "models/model_choice.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/printable.h"
#include "models/config_json.h"
#include "models/known_shapes.h"

namespace ridge::models {
namespace {

// The name of a configuration: that of its folder if the file is called config.json, as most are.
std::string file_title(const std::filesystem::path& path) {
  std::filesystem::path full = std::filesystem::absolute(path).lexically_normal();
  if (!full.has_filename()) full = full.parent_path();
  if (full.filename() == "config.json" && full.parent_path().has_filename())
    full = full.parent_path();
  return full.filename().string();
}

}  // namespace

ModelChoice choose_model(const ModelOptions& options) {
  // Files have no training settings: use the presets' batch size, and a length of at most the
  // model's context.
  constexpr int64_t kBatch = 8, kLongest = 512;
  auto choice = [&](const std::string& path, const ModelConfig& config) -> ModelChoice {
    const int64_t sequence = config.context > 0 ? std::min(config.context, kLongest) : kLongest;
    return {file_title(path), config, kBatch, sequence};
  };
  std::error_code error;
  const ModelConfig* known = find_known_shape(options.config_file);
  if (known != nullptr && !std::filesystem::exists(options.config_file, error)) {
    ModelChoice made = choice(known->name, *known);
    made.name = known->name;
    return made;
  }
  if (!options.config_file.empty())
    return choice(options.config_file, load_config(options.config_file));
  if (!options.model_file.empty()) {
    auto file = std::make_shared<const ModelFile>(ModelFile::open(options.model_file));
    ModelChoice made = choice(options.model_file, folder_form(file->config()));
    made.file = std::move(file);
    return made;
  }
  const Preset& size = preset(options.preset);
  return {size.config.name, size.config, size.batch_size, size.sequence};
}

void expect_context(const ModelOptions& options,
                    const ModelChoice& model,
                    const char* option,
                    int64_t sequence) {
  if (!options.is_preset() && sequence > model.config.context)
    throw usage_error("[{}] expected at most {} tokens, the context of {}, got {}", option,
                      model.config.context, printable(model.name), sequence);
}

}  // namespace ridge::models
