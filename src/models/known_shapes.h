// SPDX-License-Identifier: Apache-2.0
// Configurations of published models, by name, for plans and benches that need no weights.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "models/config.h"

namespace ridge::models {

// gemma3-270m, gemma3-1b, llama-2-7b, llama-2-70b, llama-3-8b, smollm2-135m
std::span<const ModelConfig> known_shapes();
const ModelConfig* find_known_shape(std::string_view name);
std::string known_shape_names();  // with the presets: "tiny, small, ..., gemma3-270m, ..."

// A preset, a known shape, or a config.json or its folder. Throws usage Errors that list the names,
// and bad-file Errors.
ModelConfig config_by_name(const std::string& name);

}  // namespace ridge::models
