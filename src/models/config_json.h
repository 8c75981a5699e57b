// SPDX-License-Identifier: Apache-2.0
// Reads config.json in the key names of Hugging Face, for the Llama and Gemma 3 families, old and new RoPE keys.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "models/config.h"

namespace ridge::models {

// Takes a config.json or a folder that holds one. A bad-file Error names the key, what was expected and what was found;
// unknown keys are ignored, since published files carry many.
ModelConfig load_config(const std::filesystem::path& path);
ModelConfig parse_config(const nlohmann::json& json, std::string_view source);

}  // namespace ridge::models
