// SPDX-License-Identifier: Apache-2.0
// Reads and writes config.json with Hugging Face's keys, for the families of family.h, with old
// and new RoPE keys.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "models/config.h"
#include "text/tokenizer_spec.h"

namespace ridge::models {

// Takes a config.json or a folder that contains one. Throws a bad-file Error that names the key,
// what was expected and what was found. Unknown keys are ignored, because published files have
// many.
ModelConfig load_config(const std::filesystem::path& path);
ModelConfig parse_config(const nlohmann::json& json, std::string_view source);

// The text of a config.json that transformers reads, with weights in `dtype` (f32, f16 or bf16).
// The configuration must be in Hugging Face's form: split halves in RoPE, Gemma's norms as w of
// (1 + w). `tokenizer` may be null.
std::string config_json(const ModelConfig& config,
                        DType dtype,
                        const text::TokenizerSpec* tokenizer);

}  // namespace ridge::models
